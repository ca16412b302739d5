"""The code of a start in one file: its modules are found and read with two system calls each.

Python looks through folders for each module, then opens, checks and reads a file of bytecode: with
more than 500 modules that was a sixth of a start. The file is made where Keyhouse is installed
(``keyhouse.server.process.pack_code``), of the bytecode that is there. A module comes from it only
for the interpreter, the search path and the place that it was made for, and, as with bytecode,
while time and size of the source are the same. All else is imported as ever: nothing needs it.

Compiling regular expressions was a tenth of a start. The file has what their compiler made of each,
which depends on its text, its flags and the interpreter only.

::

    0   length of the index, 8 bytes, big-endian
    8   index, as ``marshal`` writes it: the setting, by module a ``Row``, and each ``Compiled``
    ..  the code of each module, as in its file of bytecode
"""

import _sre  # type: ignore[import-not-found]  # built into CPython
import os
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from marshal import loads

TYPE_CHECKING = False  # typing is imported later, from the file
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from typing import Any

    Row = tuple[str, tuple[int, int] | None, int, int, bool]
    """Path of the source or library; its time (ns) and size, None: any; offset and length of the
    code, 0: a library; and whether it is a package."""

    Compiled = tuple[int, tuple[Any, ...]]
    """Flags that ``re.compile`` is given, and what its compiler gives ``_sre.compile``."""

LENGTH_SIZE = 8

_TAG = sys.implementation.cache_tag
_PACKAGE = __file__.rsplit("/", 3)[0]
PACKED = f"{_PACKAGE}/__pycache__/start.{_TAG}.packed"
"""Where the file is: with the bytecode, which is written by the same hands."""


def setting() -> tuple[object, ...]:
    """Return what the file depends on: the interpreter, where it looks for modules, this place."""
    return sys.hexversion, _sre.MAGIC, sys.flags.optimize, tuple(sys.path), _PACKAGE


def use_packed_code(file: str = PACKED) -> None:
    """From now on import modules from ``file``, if there is one and it fits."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    length, made_for, rows, patterns = _index(handle)
    if made_for == setting():
        sys.meta_path.insert(0, _PackedFinder(handle, LENGTH_SIZE + length, rows))
        _know(patterns)
    else:
        os.close(handle)


def _know(patterns: "Sequence[Compiled]") -> None:
    """Have ``re`` find ``patterns`` compiled, as if each had been used before."""
    import re

    known: dict[tuple[type, object, int], object] = getattr(re, "_cache", {})
    for flags, compiled in patterns:
        known[type(compiled[0]), compiled[0], flags] = _sre.compile(*compiled)


def _index(handle: int) -> "tuple[int, object, dict[str, Row], Sequence[Compiled]]":
    """Return the length of the index, for which setting it is, its rows and patterns."""
    try:
        length = int.from_bytes(os.read(handle, LENGTH_SIZE), "big")
        index = os.read(handle, min(length, os.fstat(handle).st_size))
        made_for, rows, patterns = loads(index)  # noqa: S302 of this installation, like its bytecode
    except (OSError, EOFError, TypeError, ValueError):
        return 0, None, {}, ()
    return length, made_for, rows, patterns


class _PackedFinder:
    """Finds the modules that are in an open file, each once."""

    def __init__(self, handle: int, start: int, rows: "dict[str, Row]") -> None:
        self._handle = handle
        self._start = start
        self._rows = rows

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> ModuleSpec | None:
        """Return where the module ``name`` comes from; None: from elsewhere."""
        del path, target
        row = self._rows.pop(name, None)
        if row is None:
            return None
        origin, expected, offset, length, is_package = row
        if (found := time_and_size(origin)) is None or expected not in {None, found}:
            return None
        if not length:
            spec = ModuleSpec(name, ExtensionFileLoader(name, origin), origin=origin)
        else:
            folder, _, source = origin.rpartition("/")
            loader = _PackedLoader(name, origin, self._handle, self._start + offset, length)
            spec = ModuleSpec(name, loader, origin=origin)
            spec.cached = f"{folder}/__pycache__/{source.removesuffix('.py')}.{_TAG}.pyc"
            spec.submodule_search_locations = [folder] if is_package else None
        spec.has_location = True
        return spec


class _PackedLoader(SourceFileLoader):
    """Takes the code of one module out of the file; the module is like any from its source."""

    def __init__(self, name: str, origin: str, handle: int, offset: int, length: int) -> None:
        super().__init__(name, origin)
        self._place = (handle, length, offset)

    def get_code(self, fullname: str) -> "CodeType | None":
        """Return the code; from the bytecode or the source if the file has been cut."""
        code = os.pread(*self._place)
        if len(code) < self._place[1]:
            return super().get_code(fullname)
        made: CodeType = loads(code)  # noqa: S302 as above
        return made


def time_and_size(path: str) -> tuple[int, int] | None:
    """Return the time (ns) and size of a file; None if it is not there."""
    try:
        found = os.stat(path)  # noqa: PTH116 in time: Path.stat takes twice as long
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
