"""The table of distributions in pyproject.toml, as ``deploy/distributions.py`` reads the table."""

import runpy
from pathlib import Path
from typing import Any, Final

__all__ = ["ROOT", "TABLE"]

ROOT: Final = Path(__file__).parents[2]
TABLE: Final[Any] = runpy.run_path(str(ROOT / "deploy" / "distributions.py"))["Table"].read()
