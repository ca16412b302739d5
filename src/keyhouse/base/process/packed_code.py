"""Imports the modules of a starting command from a single file of bytecode, the packed file.

Python searches folders for each module, then opens, checks and reads a file of bytecode. With more
than 500 modules that took a fifth of a start. ``pack_code``, beside this module, writes the file
where Keyhouse is installed, from the bytecode of that installation. A module comes from the file
only for the same interpreter, search path and installation folder. As with bytecode, time and size
of the source must be unchanged. Python imports every other module as usual: the file is optional.

Format, both parts as ``marshal`` writes them::

    0   length of the setting, 8 bytes, big-endian
    8   setting: the values that the file depends on
    ..  a ``Row`` for each module name
"""

import os
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from marshal import loads
from mmap import MAP_POPULATE, MAP_PRIVATE, PROT_READ, mmap

TYPE_CHECKING = False  # typing is imported later, from the file
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

    Row = tuple[str, tuple[int, int] | None, CodeType | None, bool]
    """Path of the source or library; its time (ns) and size, None: any; its code, None: a library;
    and whether it is a package."""

LENGTH_SIZE = 8  # bytes of a length in the packed file: any size fits

_TAG = sys.implementation.cache_tag
_PACKAGE = __file__.rsplit("/", 3)[0]


def packed_file(command: str) -> str:
    """Return the path of the packed file of ``command``, in the package's ``__pycache__``."""
    return f"{_PACKAGE}/__pycache__/{command}.{_TAG}.packed"


def setting() -> tuple[object, ...]:
    """Return the values on which packed code depends.

    The values are the interpreter, the search path and the installation folder. A process uses a
    packed file only if the writer of the file had equal values.
    """
    return sys.hexversion, sys.flags.optimize, tuple(sys.path), _PACKAGE


def use_packed_code(file: str) -> None:
    """Import modules from the packed ``file`` from now on, in place of single bytecode files.

    Do nothing if the file is missing or damaged, or comes from another interpreter, search path
    or installation folder.
    """
    try:
        # A pipe in its place must not hold up the start; it cannot be mapped.
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return
    try:
        rows = _content(handle)
    except (OSError, EOFError, TypeError, ValueError):
        return
    finally:
        os.close(handle)
    sys.meta_path.insert(0, _PackedFinder(rows))


def _content(handle: int) -> "dict[str, Row]":
    """Return the rows of the packed file in ``handle``.

    Return no rows if the file was written under a setting that differs from ``setting()``.

    Raises the errors of ``marshal``. The file is mapped into memory, to save a copy of 6 MB. The
    mapping stays valid: ``pack_code`` replaces the whole file and never changes its content.
    """
    with mmap(handle, 0, flags=MAP_PRIVATE | MAP_POPULATE, prot=PROT_READ) as mapped:
        length = int.from_bytes(mapped[:LENGTH_SIZE], "big")
        with memoryview(mapped) as whole, whole[LENGTH_SIZE:] as parts:
            if loads(parts) != setting():  # noqa: S302 written like the bytecode
                return {}
            with parts[length:] as part:
                rows: dict[str, Row] = loads(part)  # noqa: S302 as above
    return rows


class _PackedFinder:
    """Finds the modules in the packed file, which has the bytecode of many modules.

    The finder finds each module only once. If a program reloads the module, Python searches as
    usual.
    """

    def __init__(self, rows: "dict[str, Row]") -> None:
        self._rows = rows

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> ModuleSpec | None:
        """Return the spec of the module ``name``; None if the packed code cannot be used.

        The file may lack the module, or the source was changed. Python then searches as usual.
        """
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


class _PackedLoader(SourceFileLoader):
    """Loads a module from packed code the first time, and from its own file after that."""

    def __init__(self, name: str, origin: str, code: "CodeType") -> None:
        super().__init__(name, origin)
        self._code: CodeType | None = code

    def get_code(self, fullname: str) -> "CodeType | None":
        """Return the packed code of the module ``fullname``, and release it."""
        code, self._code = self._code, None
        return code or super().get_code(fullname)


def time_and_size(path: str) -> tuple[int, int] | None:
    """Return the time of change (ns) and the size of the file ``path``; None if unreadable."""
    try:
        found = os.stat(path)  # noqa: PTH116 in time: Path.stat takes twice as long
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
