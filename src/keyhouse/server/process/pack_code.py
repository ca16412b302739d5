"""Packs the code that a start imports: ``python -I -m keyhouse.server.process.pack_code``.

Run it where Keyhouse is installed; bytecode that is missing is written, too.
"""

import importlib
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
    from keyhouse.base.process.packed_code import Row

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
    write_packed(Path(PACKED), import_start())
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


def write_packed(file: Path, modules: Iterable[ModuleSpec]) -> None:
    """Write the code of ``modules`` to ``file``, replacing it whole.

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
    content: Any = (setting(), rows)  # of types that marshal takes
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
