"""The code of a start in one file for each measured command, which is read at once.

Python looks through folders for each module, then opens, checks and reads a file of bytecode: with
more than 500 modules that was a fifth of a start. The file is made where Keyhouse is installed
(``keyhouse.cli.pack_code``), of the bytecode that is there. A module comes from it only
for the interpreter, the search path and the place that it was made for, and, as with bytecode,
while time and size of the source are the same. All else is imported as ever: nothing needs it.

Compiling regular expressions was a tenth of a start. The file has what their compiler made of each,
which depends on its text, its flags and the interpreter only.

Both parts are as ``marshal`` writes them::

    0   length of the setting, 8 bytes, big-endian
    8   setting: what the file depends on
    ..  by module a ``Row``, and each ``Compiled``
"""

import _sre  # type: ignore[import-not-found]  # built into CPython
import os
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from marshal import loads
from mmap import MAP_POPULATE, MAP_PRIVATE, PROT_READ, mmap

TYPE_CHECKING = False  # typing is imported later, from the file
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from typing import Any

    Row = tuple[str, tuple[int, int] | None, CodeType | None, bool]
    """Path of the source or library; its time (ns) and size, None: any; its code, None: a library;
    and whether it is a package."""

    Compiled = tuple[int, tuple[Any, ...]]
    """Flags that ``re.compile`` is given, and what its compiler gives ``_sre.compile``."""

LENGTH_SIZE = 8

_TAG = sys.implementation.cache_tag
_PACKAGE = __file__.rsplit("/", 3)[0]


def packed_file(command: str) -> str:
    """Return where the file of a command is: with the bytecode, written by the same hands."""
    return f"{_PACKAGE}/__pycache__/{command}.{_TAG}.packed"


def setting() -> tuple[object, ...]:
    """Return what the file depends on: the interpreter, where it looks for modules, this place."""
    return sys.hexversion, _sre.MAGIC, sys.flags.optimize, tuple(sys.path), _PACKAGE


def use_packed_code(file: str) -> None:
    """From now on import modules from ``file``, if there is one and it fits."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rows, patterns = _content(handle)
    except (OSError, EOFError, TypeError, ValueError):
        return
    finally:
        os.close(handle)
    sys.meta_path.insert(0, _PackedFinder(rows))
    _know(patterns)


def import_packed(package: str) -> None:
    """Import the modules of the top-level ``package`` that the file in use has, if there is one.

    As in the file, each comes after what it needs. Python's search for it, its lock and whatever
    else it takes to import one module from within another are left out: two thirds of the time of
    an import, besides the module's own code. The code of a package comes after that of its modules,
    which therefore must not need anything of it.
    """
    for finder in sys.meta_path:
        if isinstance(finder, _PackedFinder):
            finder.import_all(package)


def _content(handle: int) -> "tuple[dict[str, Row], Sequence[Compiled]]":
    """Return the modules and patterns; raise what ``marshal`` raises if they do not fit.

    The file is mapped, which saves a copy of it. It is only ever replaced whole, never changed.
    """
    with mmap(handle, 0, flags=MAP_PRIVATE | MAP_POPULATE, prot=PROT_READ) as mapped:
        length = int.from_bytes(mapped[:LENGTH_SIZE], "big")
        with memoryview(mapped) as whole, whole[LENGTH_SIZE:] as parts:
            if loads(parts) != setting():  # noqa: S302 written like the bytecode
                return {}, ()
            with parts[length:] as part:
                content: tuple[dict[str, Row], Sequence[Compiled]]
                content = loads(part)  # noqa: S302 as above
    rows, patterns = content
    return rows, patterns


def _know(patterns: "Sequence[Compiled]") -> None:
    """Have ``re`` find ``patterns`` compiled, as if each had been used before."""
    import re

    known: dict[tuple[type, object, int], object] = getattr(re, "_cache", {})
    for flags, compiled in patterns:
        known[type(compiled[0]), compiled[0], flags] = _sre.compile(*compiled)


class _PackedFinder:
    """Finds the modules of a packed file, each once."""

    def __init__(self, rows: "dict[str, Row]") -> None:
        self._rows = rows
        self._begun: dict[str, tuple[ModuleType, _PackedLoader]] = {}  # still to be executed

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> ModuleSpec | None:
        """Return where the module ``name`` comes from; None: from elsewhere."""
        del path, target
        row = self._rows.pop(name, None)
        if row is None:
            return None
        origin, expected, code, is_package = row
        if (found := time_and_size(origin)) is None or expected not in {None, found}:
            return None
        if code is None:
            spec = ModuleSpec(name, ExtensionFileLoader(name, origin), origin=origin)
        else:
            folder, _, source = origin.rpartition("/")
            spec = ModuleSpec(name, _PackedLoader(name, origin, code), origin=origin)
            spec.cached = f"{folder}/__pycache__/{source.removesuffix('.py')}.{_TAG}.pyc"
            spec.submodule_search_locations = [folder] if is_package else None
        spec.has_location = True
        return spec

    def import_all(self, package: str) -> None:
        """Import ``package`` and what is in it, in the order of the file."""
        inside = f"{package}."
        for name in [name for name in self._rows if f"{name}.".startswith(inside)]:
            if name not in sys.modules:
                self._begin(name)
            if name not in self._begun:
                continue  # imported meanwhile, or it has changed and is imported as ever
            module, loader = self._begun.pop(name)
            try:
                loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
            parent, _, own = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], own, module)

    def _begin(self, name: str) -> None:
        """Let a module and the packages that it is in be there, before their code is executed."""
        parent = name.rpartition(".")[0]
        if parent and parent not in sys.modules:
            self._begin(parent)
        if parent and parent not in sys.modules:
            return
        spec = self.find_spec(name)
        if spec is None or not isinstance(spec.loader, _PackedLoader):
            return
        module = sys.modules[name] = type(sys)(name)
        self._begun[name] = module, spec.loader
        vars(module).update(
            __spec__=spec,
            __loader__=spec.loader,
            __package__=spec.parent,
            __file__=spec.origin,
            __cached__=spec.cached,
        )
        if (folders := spec.submodule_search_locations) is not None:
            module.__path__ = folders


class _PackedLoader(SourceFileLoader):
    """Has the code of one module, once; all else is like any module's from its source."""

    def __init__(self, name: str, origin: str, code: "CodeType") -> None:
        super().__init__(name, origin)
        self._code: CodeType | None = code

    def get_code(self, fullname: str) -> "CodeType | None":
        """Return the code; when asked again, from the bytecode or the source."""
        code, self._code = self._code, None
        return code or super().get_code(fullname)


def time_and_size(path: str) -> tuple[int, int] | None:
    """Return the time (ns) and size of a file; None if it is not there."""
    try:
        found = os.stat(path)  # noqa: PTH116 in time: Path.stat takes twice as long
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
