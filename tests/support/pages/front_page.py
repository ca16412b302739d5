"""The session on the front page of the documentation, typed beside a development coordinator.

Run this module as a program to write the session again:
``PYTHONPATH=tests .venv/bin/python -m support.pages.front_page``.
"""

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from support.process.dev import dev
from support.process.start import on_path

__all__ = ["PAGE", "renewed", "typed"]

PAGE: Final = Path(__file__).parents[3] / "docs" / "index.md"

_SESSION: Final = re.compile(r"(^```console\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)
_JOIN: Final = r"""keyhouse run --type web --coordinator 127.0.0.1:2001 \
    --platform simulation --simulated-machine keyhouse-dev/data \
    --root-certificate keyhouse-dev/root.pem \
    -- sh -c 'echo a token of ${#TOKEN} digits'"""
_COMMANDS: Final = (
    "keyhouse status | head -4",
    "keyhouse secret get greeting --show",
    "keyhouse secret get payroll --show",
    _JOIN,
)
_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHOWN_UUID: Final = "66cd0091-1414-4c25-bb2e-ad5705b099aa"


def typed(folder: Path) -> str:
    """Return the session: each command, and its output on both streams.

    The ports of the usual coordinator and a fixed UUID replace those of this run.
    """
    with dev(folder) as (_, ready), on_path() as path:
        return "".join(f"$ {each}\n{_output(each, folder, path, ready)}" for each in _COMMANDS)


def _output(command: str, folder: Path, path: str, ready: dict[str, Any]) -> str:
    own = {"127.0.0.1:2001": ready["workloadApi"], "127.0.0.1:4433": ready["clientApi"]}
    for usual, address in own.items():
        command = command.replace(usual, shlex.quote(address))
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{command}"],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    output = done.stdout
    for usual, address in own.items():
        output = output.replace(address, usual)
    return _UUID.sub(_SHOWN_UUID, output)


def renewed(page: str, session: str) -> str:
    """Return ``page`` with ``session`` as its only block ``console``."""
    [block] = _SESSION.findall(page)
    return page.replace("".join(block), f"{block[0]}{session}{block[2]}")


def _main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        session = typed(Path(folder))
    PAGE.write_text(renewed(PAGE.read_text("utf-8"), session), "utf-8")
    sys.stdout.write(session)


if __name__ == "__main__":
    _main()
