"""Loads a mutant in place of its module, and beforehand all that does not depend on it."""

import ast
import gc
import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType
from typing import Final

__all__ = ["Mutated", "load_others", "loaded"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_OURS: Final = {"keyhouse", "keyhouse_simulation", "support"}
_NOT_BEFORE_A_FORK: Final = {"grpc", "uvloop", "tests", "conftest", "__main__", "__mp_main__"}
"""What has threads or loops of its own as soon as it is loaded, and what pytest finds itself."""


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._text.encode(), self.get_filename(fullname))


class Mutated:
    """Finds the mutant's ``text`` for the ``name`` of its module, and nothing else."""

    def __init__(self, name: str, path: str, text: str) -> None:
        self._name = name
        self._loader = _Loader(name, path, text)

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> object:
        """Return the mutant if it is what is imported."""
        return spec_from_loader(name, self._loader) if name == self._name else None


def loaded() -> dict[str, str]:
    """Return the files of the modules that this process has loaded, in that order."""
    found = {name: getattr(each, "__file__", None) for name, each in list(sys.modules.items())}
    return {name: str(file) for name, file in found.items() if file}


def load_others(target: str, files: Mapping[str, str]) -> None:
    """Load the modules of ``files`` that do not depend on ``target``: each fork has them then."""
    sys.path.insert(0, str(_ROOT / "tests"))
    ours = {name: file for name, file in files.items() if _top(name) in _OURS}
    late = set(_dependent(target, ours))
    for name in files:
        if name not in late and _top(name) not in _NOT_BEFORE_A_FORK:
            with suppress(Exception):  # the tests load what cannot be loaded beforehand
                importlib.import_module(name)
    if target in sys.modules:  # no mutant would be read
        raise SystemExit(f"{target} was loaded by a module that does not import it")
    gc.freeze()  # what stays is not looked through again


def _top(name: str) -> str:
    return name.partition(".")[0]


def _dependent(target: str, files: Mapping[str, str]) -> Iterable[str]:
    """Return ``target`` and all modules of ``files`` that import it, by whatever way."""
    found = {target}
    while more := {name for name in files.keys() - found if _needs(name, files[name]) & found}:
        found |= more
    return found


@cache
def _needs(name: str, file: str) -> frozenset[str]:
    """Return what the module names in its imports, and the packages around all of it."""
    tree = ast.parse(Path(file).read_text())
    needed = [name.rpartition(".")[0]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            needed += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            needed += [f"{node.module}.{each.name}" for each in node.names]
    return frozenset(each for full in needed for each in _with_parents(full))


def _with_parents(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]
