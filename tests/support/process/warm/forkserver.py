"""A warm interpreter that becomes `keyhouse` processes: what it imported, they need not import.

Run as a program with the kind of its children (``serve``, ``run`` or ``command``), which of how
many of that kind it is, the descriptors of a socket and of one that listens, for shells, and the
number by which thresholds are divided (``support.process.divided``). Each message on the first, and
the first on a connection to the other, is a request: JSON with ``arguments``, ``environment`` and
``folder``, and four descriptors: the three standard streams of the child and a pipe, which gets the
child's process id and, at its end, its exit code (four bytes each, native order, negative for a
signal).

The nursery forks, and waits for those that it forked: nothing else, so it has no threads. It ends
when the other end of the first socket is closed.
"""

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from support.process.warm.rsa_keys import KeptKeys

LONGEST_REQUEST: Final = 1 << 16
EXIT: Final = struct.Struct("i")

# Whole packages: what a process imports when it needs it first is warm as well.
_PACKAGES: Final = {
    "serve": ("keyhouse.base", "keyhouse.coordinator", "keyhouse.server", "keyhouse.wire"),
    "run": ("keyhouse.launcher", "keyhouse.wire"),
    "command": ("keyhouse.cli", "keyhouse.client", "keyhouse.console", "keyhouse.manifest"),
}

# Programs of their own.
_OTHERS: Final = ("keyhouse.cli.__main__", "keyhouse.cli.pack_code")

# What these import when they first do something, of others.
_MODULES: Final = {
    "serve": (
        "cryptography.hazmat.backends.openssl.backend",
        "ctypes",
        "dcap_qvl",
        "encodings.ascii",
        "keyhouse.journal",
        "keyhouse_simulation.snp",
        "uvloop",
        "dcap_qvl",
    ),
    "run": (
        "cryptography.hazmat.backends.openssl.backend",
        "ctypes",
        "dcap_qvl",
        "encodings.ascii",
        "encodings.idna",
        "keyhouse.launcher.command",
        "keyhouse.launcher.anchors",
        "keyhouse_simulation.snp",
    ),
    "command": (
        "anyio._backends._asyncio",
        "certifi",
        "cryptography.hazmat.backends.openssl.backend",
        "dcap_qvl",
        "encodings.idna",
        "getpass",
        "httpcore",
        "keyhouse.coordinator",
        "keyhouse_simulation",
        "resource",
    ),
}

# What the parser of commands imports when it first shows a result, a list and a mistake.
_WARMING: Final = (["version"], ["--help"], ["no-such-command"])


def _preload(kind: str, this: int, of: int) -> "KeptKeys":
    """Import everything, and make what is made once: of types, of patterns and of the parser.

    Returns the keys for the children of ``this`` of how many nurseries.
    """
    if kind == "command":
        from keyhouse.cli.commands import leave_out

        leave_out()  # as it does itself, when it begins
    for name in (*_below(_PACKAGES[kind]), *_MODULES[kind]):
        importlib.import_module(name)
    if kind != "run":
        from keyhouse.manifest import decode
        from keyhouse.manifest.check import read_document

        decode(b"{}")
        read_document(b"{}")
    if kind == "serve":
        from keyhouse.server.client_api import ROUTES
        from keyhouse.server.client_api.routes import Grammars

        Grammars(ROUTES)
        _warm_tls()
    if kind != "command":
        _need_no_packed_code()
    if kind == "command":
        from keyhouse.cli import main as run

        for words in _WARMING:
            sys.argv[:] = ["keyhouse", *words]
            with (
                suppress(SystemExit),
                redirect_stdout(io.StringIO()),
                redirect_stderr(io.StringIO()),
            ):
                run()
    keys = _kept_keys(this, of)
    gc.collect()
    gc.freeze()
    return keys


def _kept_keys(this: int, of: int) -> "KeptKeys":
    with _tests_on_path():
        from support.process.warm.rsa_keys import KeptKeys
    return KeptKeys(this, of)


@contextmanager
def _tests_on_path() -> Iterator[None]:
    """Let modules of the tests be imported until the context ends."""
    sys.path.insert(0, str(Path(__file__).parents[3]))
    yield
    del sys.path[0]


def _divide(by: str) -> None:
    with _tests_on_path():
        from support.process.divided import divide
    divide(by)


def _warm_tls() -> None:
    """Have OpenSSL read and make its tables, which it does once in a process."""
    from keyhouse.authority import make_coordinator_keys
    from keyhouse.server.process.serving import root_context

    now = datetime.now(UTC).replace(microsecond=0)
    keys = make_coordinator_keys(
        dns_names=(), ip_addresses=(), curve="P-256", now=now, simulated=True
    )
    root_context(keys).new_session()


def _need_no_packed_code() -> None:
    """Spare children the file of code, which takes half of their start: all of it is loaded."""
    from keyhouse.base.process import packed_code

    def no_file(command: str) -> str:
        del command
        return os.devnull

    packed_code.packed_file = no_file


def _below(packages: Sequence[str]) -> Iterator[str]:
    for package in packages:
        found = importlib.import_module(package)
        for each in pkgutil.walk_packages(found.__path__, f"{package}."):
            if not each.name.startswith(_OTHERS):
                yield each.name


class _Children:
    """The processes that run, by descriptors that can be read from once they have ended."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[int, int]] = {}  # process ids, and where their ends are told

    def __iter__(self) -> Iterator[int]:
        return iter(self._running)

    def add(self, child: int, ends: int) -> None:
        """Tell the process id of ``child`` to ``ends``, and its exit code when it has ended."""
        self._running[os.pidfd_open(child)] = (child, ends)
        _tell(ends, child)

    def bury(self, ended: int) -> None:
        """Tell how the process at the descriptor ``ended`` has ended."""
        child, ends = self._running.pop(ended)
        _, status = os.waitpid(child, 0)
        _tell(ends, os.waitstatus_to_exitcode(status))
        os.close(ends)
        os.close(ended)

    def forget(self) -> None:
        """Close what belongs to the nursery, in a child of it."""
        for ended, (_, ends) in self._running.items():
            os.close(ended)
            os.close(ends)


def _tell(ends: int, number: int) -> None:
    with suppress(OSError):  # nobody wants to know
        os.write(ends, EXIT.pack(number))


def _become(kind: str, request: Any, streams: Sequence[int]) -> None:
    """Set everything, in a child, but what it runs."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    if kind == "serve":  # what its first process does before it starts the isolated one
        from keyhouse.base.process.isolation import clean_environment

        kept = clean_environment(os.environ)
        os.environ.clear()
        os.environ.update(kept | {"KEYHOUSE_ISOLATED": str(os.getpid())})
    os.chdir(request["folder"])
    sys.argv[:] = request["arguments"]


def _fork_on_request(
    kind: str, keys: "KeptKeys", control: socket.socket, listener: socket.socket
) -> bool:
    """Fork a child for each request; return True in a child, False at the end."""
    children = _Children()
    while True:
        ready, _, _ = select.select([control, listener, *children], [], [])
        for ended in {*children} & {*ready}:
            children.bury(ended)
        if control in ready:
            raw, descriptors, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 4)
            if not raw:
                return False
        elif listener in ready:
            with listener.accept()[0] as connection:
                raw, descriptors, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 4)
        else:
            continue
        if not raw:  # a shell's that has ended
            continue
        *streams, ends = descriptors
        keys.choose()
        child = os.fork()
        if child == 0:
            for each in (control, listener):
                each.close()
            children.forget()
            os.close(ends)
            keys.use()
            _become(kind, json.loads(raw), streams)
            return True
        children.add(child, ends)
        for descriptor in streams:
            os.close(descriptor)


def _run() -> None:
    """Run the command, and end as an interpreter does, but without taking itself apart.

    That writes to every page which this process shares with the nursery: it takes longer than most
    commands do. What fails to be written fails again, and is told, as the interpreter ends.
    """
    from keyhouse.cli import main as run

    try:
        run()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter does
        atexit._run_exitfuncs()
        gc.collect()  # tells of tasks that nobody has awaited
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)
        raise


def main() -> None:
    """Be the nursery; return from this as one of its children, which then runs the command."""
    kind, *numbers, by = sys.argv[1:]
    this, of, *descriptors = map(int, numbers)
    _divide(by)
    keys = _preload(kind, this, of)
    control, listener = (socket.socket(fileno=each) for each in descriptors)
    if _fork_on_request(kind, keys, control, listener):
        _run()


if __name__ == "__main__":
    main()
