"""Packs the code that a start imports: ``python -I -m keyhouse.server.process.pack_code``.

Run it where Keyhouse is installed; bytecode that is missing is written, too.
"""

import _sre  # type: ignore[import-not-found]  # built into CPython
import importlib
import re
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.util import MAGIC_NUMBER
from marshal import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keyhouse.base.process.packed_code import LENGTH_SIZE, PACKED, setting, time_and_size

if TYPE_CHECKING:
    from keyhouse.base.process.packed_code import Compiled, Row

_HEADER: Final = 16  # bytes of a file of bytecode before its code
_UNCHECKED: Final = b"\x01\0\0\0"
_UINT32: Final = 0xFFFFFFFF

_IMPORTED_LATER: Final = (
    *("ctypes", "uvloop", "cryptography.hazmat.backends.openssl", "keyhouse.coordinator"),
    *("keyhouse.base.process.last_resort", "keyhouse.server.process.logs"),
    *("keyhouse.server.process.opening", "keyhouse.server.process.quote_checks"),
    *("keyhouse.server.process.serve", "keyhouse.server.process.serving"),
)
"""What a start imports inside functions; each brings with it what it needs."""


def main() -> int:
    """Write the file for this interpreter; return the exit code."""
    modules = list(import_start())
    write_packed(Path(PACKED), modules, compiled_patterns())
    return 0


def import_start() -> Iterator[ModuleSpec]:
    """Import what a start imports; yield where each module came from."""
    from keyhouse.attestation.platforms.find import PlatformMissingError, simulation

    for name in _IMPORTED_LATER:
        importlib.import_module(name)
    with suppress(PlatformMissingError):  # an installation for production
        simulation()
    for name, module in tuple(sys.modules.items()):
        spec = getattr(module, "__spec__", None) or _found(name)  # some replace themselves
        if spec is not None:
            yield spec


def _found(name: str) -> ModuleSpec | None:
    parent = sys.modules.get(name.rpartition(".")[0])
    return PathFinder.find_spec(name, getattr(parent, "__path__", None))


def compiled_patterns() -> list["Compiled"]:
    """Return the regular expressions that this process has compiled and ``re`` still knows."""
    known: dict[tuple[type, Any, int], re.Pattern[Any]] = getattr(re, "_cache", {})
    found = []
    for (_, text, flags), pattern in tuple(known.items()):
        compiled = _compiled(text, flags)
        if _sre.compile(*compiled) == pattern and not pattern.flags & re.LOCALE:
            found.append((flags, compiled))
    return found


def _compiled(text: Any, flags: int) -> tuple[Any, ...]:
    """Return what the compiler of regular expressions gives the engine for ``text``."""
    compiler: Any = importlib.import_module("re._compiler")

    class Engine:
        given: tuple[Any, ...] = ()

        def __getattr__(self, name: str) -> Any:
            return getattr(_sre, name)

        def compile(self, text: Any, flags: int, code: list[int], *groups: Any) -> None:
            self.given = (text, int(flags), list(map(int, code)), *groups)  # constants, too

    engine = Engine()
    compiler._sre = engine  # noqa: SLF001
    try:
        compiler.compile(text, flags)
    finally:
        compiler._sre = _sre  # noqa: SLF001
    return engine.given


def write_packed(
    file: Path, modules: Iterable[ModuleSpec], patterns: Iterable["Compiled"] = ()
) -> None:
    """Write the code of ``modules``, and ``patterns``, to ``file``, replacing it whole.

    Left out is what has no bytecode that Python would take: it is imported as ever.
    """
    rows: dict[str, Row] = {}
    codes: list[bytes] = []
    offset = 0
    for spec in modules:
        origin, code = spec.origin, _code(spec)
        if origin is None or code is None:
            continue
        is_checked, bytecode = code
        expected = time_and_size(origin) if is_checked else None
        is_package = spec.submodule_search_locations is not None
        rows[spec.name] = (origin, expected, offset, len(bytecode), is_package)
        codes.append(bytecode)
        offset += len(bytecode)
    content: Any = (setting(), rows, tuple(patterns))  # of types that marshal takes
    index = dumps(content)
    file.parent.mkdir(exist_ok=True)
    beside = file.with_suffix(".new")
    beside.write_bytes(b"".join((len(index).to_bytes(LENGTH_SIZE, "big"), index, *codes)))
    beside.replace(file)


def _code(spec: ModuleSpec) -> tuple[bool, bytes] | None:
    """Return whether time and size of the source count, and the code; of a library none.

    None if there is no bytecode that Python would take.
    """
    if not spec.has_location or spec.origin is None:
        return None
    if isinstance(spec.loader, ExtensionFileLoader):
        return False, b""
    try:
        source, bytecode = Path(spec.origin).stat(), Path(spec.cached or "").read_bytes()
    except OSError:
        return None
    known, code = bytecode[:_HEADER], bytecode[_HEADER:]
    if known.startswith(MAGIC_NUMBER + _UNCHECKED):
        return False, code
    numbers = (0, int(source.st_mtime) & _UINT32, source.st_size & _UINT32)
    return (True, code) if known == MAGIC_NUMBER + struct.pack("<III", *numbers) else None


if __name__ == "__main__":
    sys.exit(main())
