"""The table of distributions in pyproject.toml, read by the program that divides the wheel."""

import runpy
from pathlib import Path
from typing import Any, Final

__all__ = ["ROOT", "TABLE"]

ROOT: Final = Path(__file__).parents[2]
TABLE: Final[Any] = runpy.run_path(str(ROOT / "deploy" / "distributions.py"))["Table"].read()
