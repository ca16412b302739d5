"""The numbers of the paths in ARCHITECTURE.md."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ways.paths import PATHS
from ways.recorded import Calls

__all__ = ["PAGE", "renewed", "shown"]

PAGE: Final = Path(__file__).parents[2] / "ARCHITECTURE.md"

_MARKED: Final = re.compile(r"(<!-- generated: paths -->\n).*?(<!-- end -->)", re.DOTALL)
_ROW: Final = re.compile(r"^\| ([a-z]+) \| .* \| ([0-9]+) \| [0-9]+ \|$", re.MULTILINE)


def renewed(page: str, found: Mapping[str, Calls]) -> str:
    """Return ``page`` with the table of the recorded paths ``found``."""
    rows = [
        f"| {name} | {PATHS[name]} | {len(calls)} | {sum(map(len, calls.values()))} |"
        for name, calls in found.items()
    ]
    table = "\n".join(("| Path | | Files | Functions |", "|---|---|---|---|", *rows))
    return _MARKED.sub(lambda mark: f"{mark[1]}\n{table}\n\n{mark[2]}", page)


def shown(page: str) -> dict[str, int]:
    """Return the number of files on each path in the table of ``page``."""
    return {name: int(files) for name, files in _ROW.findall(page)}
