r"""A warm interpreter that forks `keyhouse` processes.

A child runs the shipped code from `keyhouse.cli.main` to its end. It differs from a process of a
shell in these points, and in no others:

1. Modules are imported and some tables are made before the fork (``_preload``).
2. The first RSA-4096 keys come from stored primes (``rsa_keys``). They are real keys.
3. ``serve`` and ``run`` do not read the file of packed code, because all code is loaded.
4. ``serve`` does not replace its process by an isolated process. The environment is cleaned here.
5. All children of a fork server have the same seed for hashes of strings. Two servers take turns.
6. The process ends after the exit functions, without the destruction of its modules.
7. With ``KEYHOUSE_TESTS_DIVIDED``, thresholds are smaller (``divided``).

``KEYHOUSE_TESTS_COLD=1 scripts/test`` runs the suite without any of them.

Arguments of the program: the kind of the children (``serve``, ``run`` or ``command``), the index of
this server, the number of servers of that kind, the descriptors of a socket and of a listening
socket for shells, and the divisor of thresholds. A request is a JSON object with ``arguments``,
``environment`` and ``folder``, and four descriptors: the three standard streams and a pipe.
Requests arrive on the first socket, and once per connection on the second. The pipe receives the
child's process id and, after its end, its exit code. Each has four bytes in native order. Signals
are negative.

The server only forks and waits, so it needs no threads. It ends when the first socket is closed at
the other end.
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

# Packages that are imported as a whole, including modules of a later first use.
_PACKAGES: Final = {
    "serve": ("keyhouse.base", "keyhouse.coordinator", "keyhouse.server", "keyhouse.wire"),
    "run": ("keyhouse.launcher", "keyhouse.wire"),
    "command": ("keyhouse.cli", "keyhouse.client", "keyhouse.console", "keyhouse.manifest"),
}

# Programs that start at import.
_OTHERS: Final = ("keyhouse.cli.__main__", "keyhouse.cli.pack_code")

# Modules of libraries and of more packages that are imported at a first use.
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

# The parser of commands imports further modules for a first result, a list and a mistake.
_WARMING: Final = (["version"], ["--help"], ["no-such-command"])


def _preload(kind: str, this: int, of: int) -> "KeptKeys":
    """Import modules, and make types, patterns and the parser.

    Return the keys for the children of server ``this`` of ``of`` servers.
    """
    if kind == "command":
        from keyhouse.cli.commands import block_unused_imports

        block_unused_imports()  # as `keyhouse.cli.main` does first
    for name in (*_below(_PACKAGES[kind]), *_MODULES[kind]):
        importlib.import_module(name)
    if kind != "run":
        from keyhouse.manifest import decode
        from keyhouse.manifest.check import read_document

        decode(b"{}")
        read_document(b"{}")
    if kind == "serve":
        from keyhouse.server.client_api import ROUTES
        from keyhouse.server.client_api.dispatcher import Grammars

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
    """Make modules of the tests importable during the context."""
    sys.path.insert(0, str(Path(__file__).parents[3]))
    yield
    del sys.path[0]


def _divide(by: str) -> None:
    with _tests_on_path():
        from support.process.divided import divide
    divide(by)


def _warm_tls() -> None:
    """Let OpenSSL read and make its tables, once per process."""
    from keyhouse.authority import make_coordinator_keys
    from keyhouse.server.process.serving import root_context

    now = datetime.now(UTC).replace(microsecond=0)
    keys = make_coordinator_keys(
        dns_names=(), ip_addresses=(), curve="P-256", now=now, simulated=True
    )
    root_context(keys).new_session()


def _need_no_packed_code() -> None:
    """Let children skip the file of packed code. Reading it takes half of their start."""
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
    """The running children, by descriptors that become readable at their end."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[int, int]] = {}  # child's process id and its pipe

    def __iter__(self) -> Iterator[int]:
        return iter(self._running)

    def add(self, child: int, ends: int) -> None:
        """Write the process id of ``child`` to the pipe ``ends``."""
        self._running[os.pidfd_open(child)] = (child, ends)
        _tell(ends, child)

    def bury(self, ended: int) -> None:
        """Write the exit code of the child with the descriptor ``ended`` to its pipe."""
        child, ends = self._running.pop(ended)
        _, status = os.waitpid(child, 0)
        _tell(ends, os.waitstatus_to_exitcode(status))
        os.close(ends)
        os.close(ended)

    def forget(self) -> None:
        """Close the server's descriptors in a child."""
        for ended, (_, ends) in self._running.items():
            os.close(ended)
            os.close(ends)


def _tell(ends: int, number: int) -> None:
    with suppress(OSError):  # nobody reads the pipe
        os.write(ends, EXIT.pack(number))


def _become(kind: str, request: Any, streams: Sequence[int]) -> None:
    """Prepare a child: streams, environment, folder and arguments."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    if kind == "serve":  # the first process of a cold start does this
        from keyhouse.base.process.isolation import clean_environment

        kept = clean_environment(os.environ)
        os.environ.clear()
        os.environ.update(kept | {"KEYHOUSE_ISOLATED": str(os.getpid())})
    os.chdir(request["folder"])
    sys.argv[:] = request["arguments"]


def _fork_on_request(
    kind: str, keys: "KeptKeys", control: socket.socket, listener: socket.socket
) -> bool:
    """Fork a child for each request. Return True in a child, False at the end of the server."""
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
        if not raw:  # the shell has ended
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
    """Run the command, and end without the destruction of modules.

    The destruction writes to each page that the child shares with the server, and takes longer than
    most commands. If a write to a standard stream fails, the interpreter's own end reports the
    failure.
    """
    from keyhouse.cli import main as run

    try:
        run()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter does
        atexit._run_exitfuncs()
        gc.collect()  # reports tasks that were never awaited
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)
        raise


def main() -> None:
    """Run the fork server. Return in a child, after its command."""
    kind, *numbers, by = sys.argv[1:]
    this, of, *descriptors = map(int, numbers)
    _divide(by)
    keys = _preload(kind, this, of)
    control, listener = (socket.socket(fileno=each) for each in descriptors)
    if _fork_on_request(kind, keys, control, listener):
        _run()


if __name__ == "__main__":
    main()
