"""A witness after C2SP tlog-witness: a real HTTP server that refuses invalid requests."""

import asyncio
import re
import socket
import threading
import time
from base64 import b64decode
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, NamedTuple, Self, cast

from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import VerifierKey, verified
from keyhouse.transparency.note import Checkpoint, SignedNote
from keyhouse.transparency.tree import require_consistent
from support.cosigner import Cosigner

__all__ = ["Answered", "Witness", "policy"]

_BODY: Final = re.compile(
    rb"old (0|[1-9][0-9]*)\n((?:[A-Za-z0-9+/]{43}=\n){0,63})\n(.+)", re.DOTALL
)
_LONGEST: Final = 10 * 1024  # bytes, the limit of litewitness
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]{1,9})\r\n", re.IGNORECASE)


class Answered(NamedTuple):
    """An answer of HTTP."""

    status: int
    body: bytes = b""
    kind: str = "text/plain"


class Witness:
    """Cosigns for the logs in ``logs``. ``told`` has the statuses of all answers.

    ``instead`` replaces the answer to each checkpoint; None: the usual answer. Without ``speaks``,
    the witness reads requests and sends no answers.
    """

    def __init__(self, cosigner: Cosigner) -> None:
        self.cosigner = cosigner
        self.logs: dict[str, VerifierKey] = {}
        self.kept: dict[str, Checkpoint] = {}
        self.notes: list[bytes] = []
        self.told: list[int] = []
        self.instead: Answered | None = None
        self.speaks = threading.Event()
        self.speaks.set()
        self.connections: set[asyncio.Transport] = set()
        self._changed = threading.Condition()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._socket.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._serving = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/log"

    def trust(self, verifier: str) -> None:
        """Cosign for the log with the key ``verifier`` from now on."""
        key = VerifierKey.read(verifier)
        self.logs[key.name] = key

    def until_asked(self, times: int) -> None:
        """Wait until the witness has sent ``times`` answers."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.told) >= times, 60)

    def until_kept(self, origin: str, size: int) -> None:
        """Wait until the witness has cosigned a checkpoint of at least ``size`` leaves."""

        def has_cosigned() -> bool:
            kept = self.kept.get(origin)
            return kept is not None and kept.size >= size

        with self._changed:
            assert self._changed.wait_for(has_cosigned, 60)

    def __enter__(self) -> Self:
        self._thread.start()
        self._serving.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.speaks.set()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        loop = self._loop
        server = loop.run_until_complete(loop.create_server(lambda: _Http(self), sock=self._socket))
        self._serving.set()
        loop.run_forever()
        loop.run_until_complete(self._end(server))
        loop.close()

    async def _end(self, server: asyncio.Server) -> None:
        server.close()
        # A new connection gets its transport in a task, and only then joins ``connections``.
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        while self.connections:
            for each in self.connections:
                each.abort()
            await asyncio.sleep(0)

    def answer(self, path: bytes, body: bytes) -> Answered:
        """Answer a request. Without ``speaks``, block all connections."""
        self.speaks.wait()
        with self._changed:
            answer = Answered(404)
            if path == b"/log/add-checkpoint":
                answer = self.instead or self._answer(body)
            self.told.append(answer.status)
            self._changed.notify_all()
        return answer

    def _answer(self, body: bytes) -> Answered:
        found = _BODY.fullmatch(body)
        if found is None or len(body) > _LONGEST:
            return Answered(400)
        old, proof = int(found[1]), [b64decode(line) for line in found[2].split()]
        try:
            note = SignedNote.read(found[3])
            checkpoint = Checkpoint.read(note.text)
        except LogInvalidError:
            return Answered(400)
        key = self.logs.get(checkpoint.origin)
        if key is None:
            return Answered(404)
        try:
            verified(note, [key])
        except LogInvalidError:
            return Answered(403)
        if old > checkpoint.size:
            return Answered(400)
        return self._judged(old, proof, checkpoint, note)

    def _judged(
        self, old: int, proof: list[bytes], checkpoint: Checkpoint, note: SignedNote
    ) -> Answered:
        kept = self.kept.get(checkpoint.origin)
        size = kept.size if kept else 0
        same = old == checkpoint.size and kept is not None
        if old != size or (same and kept is not None and kept.root != checkpoint.root):
            return Answered(409, b"%d\n" % size, "text/x.tlog.size")
        if kept is None and proof:
            return Answered(400)
        if kept is not None:
            try:
                require_consistent(old, checkpoint.size, proof, kept.root, checkpoint.root)
            except LogInvalidError:
                return Answered(422)
        self.kept[checkpoint.origin] = checkpoint
        self.notes.append(note.encode())
        return Answered(200, self.cosigner.line(note.text, int(time.time())).encode())


class _Http(asyncio.Protocol):
    """A persistent connection for requests with Content-Length."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._witness.connections.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._witness.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        length = _LENGTH.search(head + b"\r\n")
        if not head.startswith(b"POST ") or length is None:
            self._transport.close()
            return
        body, self._received = rest[: int(length[1])], rest[int(length[1]) :]
        if len(body) < int(length[1]):
            self._received = head + end + rest
            return
        answer = self._witness.answer(head.split(b" ", 2)[1], body)
        self._transport.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
            % (
                answer.status, HTTPStatus(answer.status).phrase.encode(),
                answer.kind.encode(), len(answer.body), answer.body,
            )
        )  # fmt: skip


def policy(witnesses: Iterable[Witness], needed: int) -> str:
    """Return a policy that demands ``needed`` of ``witnesses``."""
    named = {f"W{number}": each for number, each in enumerate(witnesses)}
    lines = (f"witness {name} {each.cosigner.verifier} {each.url}" for name, each in named.items())
    return "\n".join((*lines, f"group Q {needed} {' '.join(named)}", "quorum Q", ""))
