"""A flood: all connections prepare their bytes first, and then send them."""

import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Final, cast

import msgspec
from benchmarks.coordinator import Coordinator
from benchmarks.floods.honest import Waits
from benchmarks.floods.kinds import Kind
from benchmarks.floods.processor_time import processor_ms
from benchmarks.processes import TroubleError
from support.peers.https import trusting_context
from support.peers.workloads import client_context
from support.tls_records import RecordWriter, logged_keys

__all__ = ["Flooded", "connected", "flood", "undisturbed"]

_SENDING: Final = 20.0  # seconds at most
_WORKING: Final = 60.0  # maximum seconds for the server to read the data afterwards
_PIECE: Final = 65536
_PAUSE: Final = 0.0005
_ALONE: Final = 1.0


class Flooded(msgspec.Struct, frozen=True):
    """The effects of a flood. ``cut_off`` counts connections that the server has closed."""

    waits: Waits
    processor_ms: float
    units: int
    cut_off: int


class _Attacker:
    """A connection whose handshake is complete."""

    def __init__(self, port: int, context: ssl.SSLContext, keys: Path) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.socket.sendall(outgoing.read())
                incoming.write(self.socket.recv(_PIECE))
        self.socket.sendall(outgoing.read())
        cipher = tls.cipher()
        if cipher is None:
            raise TroubleError("a TLS handshake ended without a cipher")
        self.writer = RecordWriter(keys, cipher[0])
        self.left = memoryview(b"")

    def prepare(self, kind: Kind, size: int) -> int:
        """Make units of ``kind`` with at least ``size`` bytes; return the number of units."""
        made, total = [], 0
        for unit in kind.units(self.writer):
            made.append(unit)
            total += len(unit)
            if total >= size:
                break
        self.left = memoryview(b"".join(made))
        self.socket.setblocking(False)  # noqa: FBT003 - the standard library's way
        return len(made)

    def send(self) -> bool:
        """Send one piece without blocking; return False if the server has closed the connection."""
        try:
            sent = self.socket.send(self.left[:_PIECE])
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.left = self.left[sent:]
        return True

    def is_cut_off(self) -> bool:
        """Return whether the server has closed the connection. Call this after the flood."""
        try:
            while self.socket.recv(_PIECE):
                pass
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True


class _Honest:
    """The process of an honest client, after its first answer."""

    def __init__(self, coordinator: Coordinator, log: IO[bytes]) -> None:
        numbers = [str(coordinator.port), str(coordinator.process.pid)]
        words = [sys.executable, "-m", "benchmarks.floods.honest", *numbers]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
        self._input = cast("IO[bytes]", self._process.stdin)
        self._output = cast("IO[bytes]", self._process.stdout)
        self._line()

    def end(self) -> Waits:
        """End the process, and return its waits."""
        self._input.close()
        found = self._line()
        self._output.close()
        self._process.wait(60)
        return msgspec.json.decode(found, type=Waits)

    def _line(self) -> bytes:
        line = self._output.readline()
        if not line:
            self._process.kill()
            self._process.wait()
            raise TroubleError("the honest client received no answer")
        return line


def undisturbed(coordinator: Coordinator, log: IO[bytes]) -> Waits:
    """Return the waits of an honest client without a flood."""
    honest = _Honest(coordinator, log)
    time.sleep(_ALONE)
    return honest.end()


def flood(
    coordinator: Coordinator, kind: Kind, connections: int, size: int, folder: Path, log: IO[bytes]
) -> Flooded:
    """Send ``size`` bytes of ``kind`` on each connection, and wait until the server is done.

    The flood sends for at most 20 seconds.
    """
    with ExitStack() as stack:
        attackers = _prepared(coordinator, kind, connections, folder, stack)
        units = sum(attacker.prepare(kind, size) for attacker in attackers)
        honest = _Honest(coordinator, log)
        before = processor_ms(coordinator.process.pid)
        _send(attackers)
        _until_read(coordinator)
        waits = honest.end()
        used = processor_ms(coordinator.process.pid) - before
        cut_off = sum(attacker.is_cut_off() for attacker in attackers)
    return Flooded(waits, used, units, cut_off)


def _prepared(
    coordinator: Coordinator, kind: Kind, connections: int, folder: Path, stack: ExitStack
) -> list[_Attacker]:
    context, port, keys = _way(coordinator, kind, folder)
    found = []
    for _ in range(connections):
        found.append(_Attacker(port, context, keys))
        stack.callback(found[-1].socket.close)
    return found


@contextmanager
def connected(coordinator: Coordinator, kind: Kind, folder: Path) -> Iterator[_Attacker]:
    """Connect a single client for units of ``kind``."""
    context, port, keys = _way(coordinator, kind, folder)
    attacker = _Attacker(port, context, keys)
    with closing(attacker.socket):
        yield attacker


def _way(coordinator: Coordinator, kind: Kind, folder: Path) -> tuple[ssl.SSLContext, int, Path]:
    """Return the TLS context, the port and the TLS key log for connections of ``kind``."""
    context, port = trusting_context(), coordinator.port
    if kind.workloads:
        context, port = client_context(), coordinator.mesh_port
    return context, port, logged_keys(context, Path(tempfile.mkdtemp(dir=folder)))


def _send(attackers: list[_Attacker]) -> None:
    """Send the prepared bytes in pieces. The connections take turns."""
    end = time.monotonic() + _SENDING
    sending = list(attackers)
    while sending and time.monotonic() < end:
        sending = [each for each in sending if each.send() and each.left]
        time.sleep(_PAUSE)


def _until_read(coordinator: Coordinator) -> None:
    """Wait until the server has read all bytes or closed the connections, at most 60 s."""
    end = time.monotonic() + _WORKING
    while _unread({coordinator.port, coordinator.mesh_port}) and time.monotonic() < end:
        time.sleep(_PAUSE)


def _unread(ports: set[int]) -> int:
    """Return the bytes on the way to ``ports``, in the queues of the clients or of the server.

    Source: proc_net_tcp, kernel documentation: addresses, state, ``tx_queue:rx_queue``, in hex.
    """
    total = 0
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        sent, received = (int(queue, 16) for queue in queues.split(":"))
        if int(local.rpartition(":")[2], 16) in ports and int(remote.rpartition(":")[2], 16):
            total += received
        elif int(remote.rpartition(":")[2], 16) in ports:
            total += sent
    return total
