"""What programs import: all of it is there, and nothing is loaded before it is used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import keyhouse
import keyhouse.client
from keyhouse import AsyncCoordinator, Coordinator, KeyhouseError, Trust, TrustError


def told_to_checkers(package: ModuleType) -> set[str]:
    """Return the names that are imported for type checkers."""
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assigned = [node.targets[0] for node in block.body if isinstance(node, ast.Assign)]
    aliases = {name.id for name in assigned if isinstance(name, ast.Name)}
    return aliases | {
        each.asname for node in imports for each in node.names if each.asname is not None
    }


@pytest.mark.parametrize("package", [keyhouse, keyhouse.client], ids=lambda found: found.__name__)
def test_every_name_is_there_and_known_to_type_checkers(package: ModuleType) -> None:
    names = set(package.__all__)

    assert names == told_to_checkers(package)
    assert names <= set(dir(package))
    assert all(getattr(package, name) is not None for name in names)


def test_what_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Cordinator"):
        getattr(importlib.import_module("keyhouse"), "Cordinator")  # noqa: B009 not a known name


def test_the_names_are_the_same_everywhere() -> None:
    assert Coordinator is keyhouse.client.Coordinator
    assert AsyncCoordinator is keyhouse.client.AsyncCoordinator
    assert Trust is keyhouse.client.Trust
    assert issubclass(TrustError, KeyhouseError)


def test_importing_keyhouse_or_its_errors_loads_no_client() -> None:
    program = (
        "import sys, keyhouse, keyhouse.client\n"
        "from keyhouse import KeyhouseError, TrustError\n"
        "heavy = {'httpx', 'cryptography', 'asyncio', 'keyhouse.client.session'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert ended.stderr == ""
