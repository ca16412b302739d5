"""A witness, written from C2SP tlog-witness: a real HTTP server that refuses what it has to."""

import re
import threading
import time
from base64 import b64decode
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple, Self

from keyhouse.transparency.checkpoint import Checkpoint
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import VerifierKey, verified
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.tree import require_consistent
from support.cosigner import Cosigner

__all__ = ["Answered", "Witness", "policy"]

_BODY: Final = re.compile(
    rb"old (0|[1-9][0-9]*)\n((?:[A-Za-z0-9+/]{43}=\n){0,63})\n(.+)", re.DOTALL
)
_LONGEST: Final = 10 * 1024  # as litewitness reads


class Answered(NamedTuple):
    """An answer of HTTP."""

    status: int
    body: bytes = b""
    kind: str = "text/plain"


class Witness:
    """Cosigns for the logs in ``logs``; ``told`` has the statuses that it has answered.

    ``instead``: what it answers whatever is asked, if that is set. While ``speaks`` is not set it
    takes what is sent, and answers nothing.
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
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/log"

    def trust(self, verifier: str) -> None:
        """Cosign for the log with this key from now on."""
        key = VerifierKey.read(verifier)
        self.logs[key.name] = key

    def until_asked(self, times: int) -> None:
        """Wait until it has answered so often."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.told) >= times, 60)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.speaks.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

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

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        witness = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                witness.speaks.wait()
                with witness._changed:
                    answer = Answered(404)
                    if self.path == "/log/add-checkpoint":
                        answer = witness.instead or witness._answer(body)
                    witness.told.append(answer.status)
                    witness._changed.notify_all()
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.kind)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def policy(witnesses: Iterable[Witness], needed: int) -> str:
    """Return the policy that ``needed`` of ``witnesses`` are enough."""
    named = {f"W{number}": each for number, each in enumerate(witnesses)}
    lines = (f"witness {name} {each.cosigner.verifier} {each.url}" for name, each in named.items())
    return "\n".join((*lines, f"group Q {needed} {' '.join(named)}", "quorum Q", ""))
