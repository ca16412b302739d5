"""A warm interpreter that becomes `keyhouse` processes: what it imported, they need not import.

Run as a program with the kind of its children (``serve``, ``run`` or ``command``) and the
descriptors of a socket and of one that listens, for shells. Each message on the first, and the
first on a connection to the other, is a request: JSON with ``arguments``, ``environment`` and
``folder``, and four descriptors: the three standard streams of the child and a pipe, which gets the
child's process id and, at its end, its exit code (four bytes each, native order, negative for a
signal).

Two forks for each child: the first stays to wait for the second, so that the nursery itself never
does anything but fork. It ends when the other end of the first socket is closed.
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
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import Any, Final

LONGEST_REQUEST: Final = 1 << 16
EXIT: Final = struct.Struct("i")

# Whole packages: what a process imports when it needs it first is warm as well.
_PACKAGES: Final = {
    "serve": ("keyhouse.coordinator", "keyhouse.server", "keyhouse.wire"),
    "run": ("keyhouse.launcher", "keyhouse.wire"),
    "command": ("keyhouse.cli", "keyhouse.client", "keyhouse.manifest"),
}

# Programs of their own.
_OTHERS: Final = ("keyhouse.cli.__main__", "keyhouse.cli.run")

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
        "keyhouse.cli.run.command",
        "keyhouse.cli.run.trust",
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


def _preload(kind: str) -> None:
    if kind == "command":
        from keyhouse.cli.commands import leave_out

        leave_out()  # as it does itself, when it begins
    for name in (*_below(_PACKAGES[kind]), *_MODULES[kind]):
        importlib.import_module(name)
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
    gc.collect()
    gc.freeze()


def _below(packages: Sequence[str]) -> Iterator[str]:
    for package in packages:
        found = importlib.import_module(package)
        for each in pkgutil.walk_packages(found.__path__, f"{package}."):
            if not each.name.startswith(_OTHERS):
                yield each.name


def _become(kind: str, request: Any, descriptors: Sequence[int]) -> None:
    """Return in the child alone, with everything set but what it runs."""
    *streams, ends = descriptors
    child = os.fork()
    if child:
        for descriptor in streams:
            os.close(descriptor)
        os.write(ends, EXIT.pack(child))
        _, status = os.waitpid(child, 0)
        os.write(ends, EXIT.pack(os.waitstatus_to_exitcode(status)))
        os._exit(0)
    os.close(ends)
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


def _children(kind: str, control: socket.socket, listener: socket.socket) -> bool:
    """Fork a child for each request; return True in a child, False at the end."""
    while True:
        ready, _, _ = select.select([control, listener], [], [])
        if control in ready:
            raw, descriptors, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 4)
            if not raw:
                _bury()
                return False
        else:
            with listener.accept()[0] as connection:
                raw, descriptors, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 4)
        if raw and os.fork() == 0:
            control.close()
            listener.close()
            _become(kind, json.loads(raw), descriptors)
            return True
        for descriptor in descriptors:
            os.close(descriptor)
        _bury()


def _bury() -> None:
    """Take note of the processes that have ended their waiting, without waiting for others."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


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
    kind, *numbers = sys.argv[1:]
    _preload(kind)
    control, listener = (socket.socket(fileno=int(number)) for number in numbers)
    if _children(kind, control, listener):
        _run()


if __name__ == "__main__":
    main()
