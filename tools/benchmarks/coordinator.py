"""A real coordinator process: start, setup and requests."""

import http.client
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.manifests import User, envelope, secrets_manifest, upload_chunks
from benchmarks.processes import Process, TroubleError, until_answered
from examples.demo.ports import free_port

__all__ = ["STATUS", "Coordinator"]

STATUS: Final = "/api/v2/status"
_TIMEOUT_SECONDS: Final = 120
_SETTLE_SECONDS: Final = 0.3


class Coordinator:
    """A coordinator with a separate data directory.

    ``first_answer`` is the time of the latest start in seconds: from the start of the process to
    the answer to a status request over a new connection.
    """

    def __init__(
        self, keyhouse: Path, folder: Path, *, processor: int | None, arguments: Sequence[str] = ()
    ) -> None:
        """Start the coordinator on ``processor``; None permits every processor."""
        folder.mkdir(mode=0o700, exist_ok=True)
        self._arguments = arguments
        self.port, self.mesh_port = free_port(), free_port()
        self.first_answer = 0.0
        self._keyhouse = keyhouse
        self._folder = folder
        self.data = folder / "data"
        self._processor = processor
        self.process = self._start()

    def serve_command(self) -> list[str]:
        """Return the command to serve the data directory on loopback, with simulated quotes."""
        return [
            *(str(self._keyhouse), "serve", "--platform", "simulation"),
            *("--data-dir", str(self.data)),
            *("--client-addr", f"127.0.0.1:{self.port}"),
            *("--mesh-addr", f"127.0.0.1:{self.mesh_port}"),
            *self._arguments,
        ]

    def restart(self) -> None:
        """Stop the process, start a new process on the same directory, and await an answer."""
        self.process.stop()
        self.process = self._start()

    def stop(self) -> None:
        """End the process."""
        self.process.stop()

    def hold_secrets(self, count: int, user: User) -> None:
        """Set a manifest with ``count`` user-defined secrets, and upload all of them."""
        self.post("/api/v2/manifest", envelope(secrets_manifest(count, user)))
        for body in upload_chunks(count):
            self.post("/api/v2/secrets", body, user)

    def settled_memory(self) -> int:
        """Return the resident memory in KiB after a short pause."""
        time.sleep(_SETTLE_SECONDS)
        return self.process.memory().now

    def post(self, path: str, body: bytes, user: User | None = None) -> float:
        """Send a body, require status 200, and return the seconds from request to answer."""
        return self.exchange(path, body, user)[0]

    def exchange(self, path: str, body: bytes, user: User | None = None) -> tuple[float, bytes]:
        """Do the same as ``post``, and also return the body of the answer."""
        connection = self.connection(user)
        try:
            connection.connect()
            begun = time.perf_counter()
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            took = time.perf_counter() - begun
        except (OSError, http.client.HTTPException) as exc:
            raise TroubleError(f"POST {path} got no answer") from exc
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise TroubleError(
                f"POST {path} was answered with {answer.status}: {_message(content)}"
            )
        return took, content

    def connection(self, user: User | None = None) -> http.client.HTTPSConnection:
        """Return an unopened connection; with None the client has no certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # loopback, and the requests have no real secrets
        if user is not None:
            context.load_cert_chain(user.certificate, user.key)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=_TIMEOUT_SECONDS, context=context
        )

    def _start(self) -> Process:
        begun = time.perf_counter()
        process = Process(self.serve_command(), processor=self._processor, log=self._folder / "log")
        try:
            until_answered(process, self.port, STATUS)
        except BaseException:
            process.stop()
            raise
        self.first_answer = time.perf_counter() - begun
        return process


class _Envelope(msgspec.Struct):
    message: str = ""


def _message(content: bytes) -> str:
    try:
        return msgspec.json.decode(content, type=_Envelope).message
    except msgspec.DecodeError:
        return "no message"
