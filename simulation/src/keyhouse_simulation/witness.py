"""A witness for trials: a real HTTP server of C2SP tlog-witness, on 127.0.0.1.

::

    python -m keyhouse_simulation.witness FOLDER NAME

The folder keeps the key and the checkpoints, so a restarted witness still notices a rollback::

    NAME.key            the private key (Ed25519, 32 bytes, 0600)
    NAME.json           the port, and the newest cosigned checkpoint of each log
    logs                the verifier keys of the known logs, one on each line; read at each request

When the witness serves, it prints its line of a policy. All witnesses of a folder run on one
machine under one user, so they protect nothing. Real witnesses belong to independent parties.
"""

import os
import re
import sys
import threading
import time
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from keyhouse.base.durable_files import replace_file
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import COSIGNED, VerifierKey, verified
from keyhouse.transparency.note import Checkpoint, NoteSignature, SignedNote
from keyhouse.transparency.tree import require_consistent

_HERE: Final = "127.0.0.1"
_BODY: Final = re.compile(
    # The specification limits a proof to 63 hashes.
    rb"old (0|[1-9][0-9]{0,18})\n((?:[A-Za-z0-9+/]{43}=\n){0,63})\n(.+)",
    re.DOTALL,
)
_MOST_BYTES: Final = 64 * 1024
_IDLE_SECONDS: Final = 60.0
_SECONDS_FOR_LOGS: Final = 3.0  # less than the patience of a coordinator, 5 s
_SECONDS_BETWEEN: Final = 0.02


class SimulatedAnswer(NamedTuple):
    """An answer of HTTP."""

    status: int
    body: bytes = b""
    kind: str = "text/plain"


class State(msgspec.Struct):
    """The content of ``NAME.json``. ``port`` 0: any free port."""

    port: int = 0
    checkpoints: dict[str, Checkpoint] = {}


class SimulatedWitness:
    """The key and the memory of a witness. The methods answer one request at a time."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = folder / f"{name}.json"
        self._logs = folder / "logs"
        self._lock = threading.Lock()
        self._key = _key(folder / f"{name}.key")
        public = self._key.public_key().public_bytes_raw()
        self.verifier = VerifierKey(f"{name}.simulated.example", COSIGNED, public)
        has_run = self._file.exists()
        self.state = (
            msgspec.json.decode(self._file.read_bytes(), type=State) if has_run else State()
        )

    def store(self) -> None:
        """Write the state durably."""
        replace_file(self._file, msgspec.json.encode(self.state))

    def answer(self, body: bytes) -> SimulatedAnswer:
        """Judge the checkpoint in ``body``; store and cosign a checkpoint that continues."""
        parts = _BODY.fullmatch(body)
        if parts is None:
            return SimulatedAnswer(400)
        try:
            note = SignedNote.read(parts[3])
            checkpoint = Checkpoint.read(note.text)
            key = self._log(checkpoint.origin)
            if key is None:
                return SimulatedAnswer(404)
            verified(note, [key])
        except LogInvalidError:
            return SimulatedAnswer(403)
        with self._lock:
            return self._judge(int(parts[1]), parts[2], checkpoint, note)

    def _judge(
        self, old: int, proof: bytes, checkpoint: Checkpoint, note: SignedNote
    ) -> SimulatedAnswer:
        last = self.state.checkpoints.get(checkpoint.origin)
        size = last.size if last else 0
        if old > checkpoint.size:
            return SimulatedAnswer(400)
        if old != size:
            return SimulatedAnswer(409, b"%d\n" % size, "text/x.tlog.size")
        if last is not None:
            hashes = [b64decode(line) for line in proof.split()]
            try:
                require_consistent(old, checkpoint.size, hashes, last.root, checkpoint.root)
            except LogInvalidError:
                return SimulatedAnswer(422)
        # Store first: a cosignature of a forgotten checkpoint would permit a rollback.
        self.state.checkpoints[checkpoint.origin] = checkpoint
        self.store()
        return SimulatedAnswer(200, self._cosign(note.text))

    def _cosign(self, text: bytes) -> bytes:
        now = int(time.time())
        raw = self._key.sign(b"cosignature/v1\ntime %d\n" % now + text)
        line = NoteSignature(self.verifier.name, self.verifier.key_id, now.to_bytes(8, "big") + raw)
        return line.encode()

    def _log(self, origin: str) -> VerifierKey | None:
        """Return the key of the log ``origin``, or None for an unknown log.

        A new coordinator submits its log before the owner of the log can write the key into the
        file. So a request waits up to 3 seconds for a missing file.
        """
        deadline = time.monotonic() + _SECONDS_FOR_LOGS
        while not self._logs.exists() and time.monotonic() < deadline:
            time.sleep(_SECONDS_BETWEEN)
        lines = self._logs.read_text("utf-8").split() if self._logs.exists() else ()
        return next((key for key in map(VerifierKey.read, lines) if key.name == origin), None)


def _key(path: Path) -> Ed25519PrivateKey:
    """Return the private key in the file ``path``; generate a missing key."""
    if not path.exists():
        replace_file(path, os.urandom(32))
    return Ed25519PrivateKey.from_private_bytes(path.read_bytes())


def server_of(witness: SimulatedWitness) -> ThreadingHTTPServer:
    """Return a server for ``witness`` at its port. The first start chooses and stores the port.

    Raises ``OSError`` if the port is in use.
    """

    class WitnessHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _IDLE_SECONDS

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > _MOST_BYTES:
                self.close_connection = True
                self._send(SimulatedAnswer(400))
                return
            body = self.rfile.read(int(length))
            is_known = self.path == "/add-checkpoint"
            self._send(witness.answer(body) if is_known else SimulatedAnswer(404))

        def _send(self, answer: SimulatedAnswer) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Log nothing: the coordinator logs each witness that does not cosign."""

    server = ThreadingHTTPServer((_HERE, witness.state.port), WitnessHandler)
    server.daemon_threads = True
    if not witness.state.port:
        witness.state.port = server.server_address[1]
        witness.store()
    return server


def main(words: list[str]) -> None:
    """Serve until the process ends; print the line of the policy first."""
    folder, name = words
    try:
        witness = SimulatedWitness(Path(folder), name)
        server = server_of(witness)
    except OSError as error:
        sys.exit(f"error: witness {name} cannot serve: {error.strerror}")
    url = f"http://{_HERE}:{witness.state.port}"
    sys.stdout.write(f"witness {name} {witness.verifier} {url}\n")
    sys.stdout.flush()
    with server:
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
