"""The table of distributions in pyproject.toml, read by the program that divides the wheel."""

import runpy
from pathlib import Path
from typing import Any, Final

__all__ = ["ROOT", "TABLE", "module_of"]

ROOT: Final = Path(__file__).parents[2]
_PROGRAM: Final = runpy.run_path(str(ROOT / "deploy" / "distributions.py"))
TABLE: Final[Any] = _PROGRAM["Table"].read()


def module_of(path: str) -> str:
    """Return the module of a file in a wheel. A file that is not Python belongs to its package."""
    return str(_PROGRAM["module_of"](path))
