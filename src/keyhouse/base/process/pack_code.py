"""Packs the code of `keyhouse serve`, and of `keyhouse run`, into one file each: faster starts.

Run ``python -I -m keyhouse.base.process.pack_code`` in an installation of Keyhouse. The program
also writes missing bytecode. ``packed_code``, beside this module, reads the files.
"""

import importlib
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, find_spec
from marshal import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keyhouse.base.process.packed_code import LENGTH_SIZE, packed_file, setting, time_and_size

if TYPE_CHECKING:
    from keyhouse.base.process.packed_code import Row

_UNCHECKED: Final = b"\x01\0\0\0"

_BOTH: Final = ("ctypes", "encodings.ascii", "cryptography.hazmat.backends.openssl")
_IMPORTED: Final = {
    "serve": (
        *("uvloop", "keyhouse.coordinator", "keyhouse.base.process.crash_report", *_BOTH),
        *("keyhouse.server.logs", "keyhouse.server.process.open_state"),
        "keyhouse.server.process.serve",
        *("keyhouse.server.process.serving", "keyhouse.server.services.line_quotes"),
    ),
    "run": (
        *("keyhouse.attestation", "keyhouse.launcher.anchors", "keyhouse.wire.marble_pb2", *_BOTH),
        *("keyhouse.launcher.command", "keyhouse.launcher.files"),
    ),
}
"""The imports of each command, including later imports inside functions."""
_PROGRAMS: Final = {"serve": "keyhouse.server", "run": "keyhouse.launcher"}
"""The package of each command. An installation may contain only one package."""


def main(commands: Sequence[str]) -> int:
    """Write the packed file of each of ``commands``, or of all commands, for this interpreter."""
    if not commands:  # a fresh interpreter for each command
        words = [sys.executable, "-I", "-m", "keyhouse.base.process.pack_code"]
        installed = [each for each, package in _PROGRAMS.items() if find_spec(package)]
        ended = [subprocess.run([*words, each], check=False) for each in installed]  # noqa: S603
        return max(each.returncode for each in ended)
    modules = list(import_start(commands[0]))
    write_packed(Path(packed_file(commands[0])), modules)
    return 0


def import_start(command: str) -> Iterator[ModuleSpec]:
    """Import the modules of ``command``. Yield the import spec of each loaded module."""
    for name in _IMPORTED[command]:
        importlib.import_module(name)
    with suppress(ModuleNotFoundError):  # an installation for production
        importlib.import_module("keyhouse_simulation.folder")
    for name, module in tuple(sys.modules.items()):  # in the order of the imports
        spec = getattr(module, "__spec__", None) or _spec_of(name)  # some replace themselves
        if spec is not None and name != "__main__":  # this module
            yield spec


def _spec_of(name: str) -> ModuleSpec | None:
    parent = sys.modules.get(name.rpartition(".")[0])
    return PathFinder.find_spec(name, getattr(parent, "__path__", None))


def write_packed(file: Path, modules: Iterable[ModuleSpec]) -> None:
    """Replace ``file`` atomically by the bytecode of ``modules``, in one marshalled mapping."""
    rows: Any = {spec.name: row for spec in modules if (row := _row(spec)) is not None}
    made_for: Any = setting()  # of types that marshal takes, like the rows
    head = dumps(made_for)
    file.parent.mkdir(exist_ok=True)
    beside = file.with_suffix(".new")
    beside.write_bytes(len(head).to_bytes(LENGTH_SIZE, "big") + head + dumps(rows))
    beside.replace(file)


def _row(spec: ModuleSpec) -> "Row | None":
    """Return the row of a module in the packed file; None for a module without a usable file."""
    if not spec.has_location or spec.origin is None:
        return None
    if isinstance(spec.loader, ExtensionFileLoader):
        return spec.origin, None, None, False
    if not isinstance(spec.loader, SourceFileLoader):
        return None
    expected = time_and_size(spec.origin)
    code = spec.loader.get_code(spec.name)
    if code is None or expected is None:
        return None
    is_package = spec.submodule_search_locations is not None
    return spec.origin, None if _is_unchecked(spec) else expected, code, is_package


def _is_unchecked(spec: ModuleSpec) -> bool:
    """Return whether Python uses the module's bytecode even after a change of the source."""
    try:
        return Path(spec.cached or "").read_bytes().startswith(MAGIC_NUMBER + _UNCHECKED)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
