"""The configuration of mutation tests names files that exist."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MUTMUT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]


@pytest.mark.parametrize(
    "key", ["only_mutate", "pytest_add_cli_args_test_selection", "also_copy", "source_paths"]
)
def test_each_listed_file_exists(key: str) -> None:
    assert MUTMUT[key]
    assert [each for each in MUTMUT[key] if not (ROOT / each).exists()] == []
