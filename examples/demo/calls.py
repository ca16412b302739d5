"""HTTPS requests to the coordinator, pinned to its verified root certificate.

``curl`` sends the requests. If ``curl`` is not installed, Python sends the same requests.
"""

import http.client
import json
import shutil
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from examples.demo.screen import UnexpectedError
from examples.demo.shell import Shell, typed

__all__ = ["STATUS", "Answer", "Call", "Caller"]

_PATIENCE: Final = 30.0  # seconds


class Call(msgspec.Struct, frozen=True):
    """One request: GET, or POST with a body."""

    path: str  # with the query
    user: str = ""  # owner of the client certificate; empty: no certificate
    body: str = ""  # name of the file with the body; empty: no body

    def line(self, port: int) -> str:
        """Return the ``curl`` command for this request, in the folder of the files."""
        identity = ("--cert", f"{self.user}.crt", "--key", f"{self.user}.key") if self.user else ()
        data = ("-d", f"@{self.body}") if self.body else ()
        url = f"https://localhost:{port}{self.path}"
        return typed(["curl", "-sSi", "--cacert", "root.pem", *identity, *data, url])


STATUS: Final = Call("/api/v2/status")


class Answer(msgspec.Struct, frozen=True):
    """The answer to a request. Names of headers are in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def state(self) -> str:
        """``Keyhouse-State``: epoch, record number, chain value. Empty without a manifest."""
        return self.headers.get("keyhouse-state", "")

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object in the body. Raises ``UnexpectedError`` for any different body."""
        try:
            envelope = json.loads(self.body)
        except ValueError:
            envelope = None
        if not isinstance(envelope, dict):
            raise UnexpectedError("the answer is not a JSON object")
        return envelope


class Caller:
    """Sends requests to the coordinator at ``port``."""

    def __init__(self, shell: Shell, port: int) -> None:
        self.port: Final = port
        self._shell = shell
        self.has_curl: Final = (
            shutil.which("curl", path=self._shell.environment["PATH"]) is not None
        )

    def call(self, call: Call) -> Answer:
        """Send a request, return the answer. Raises ``UnexpectedError`` without an answer."""
        if self.has_curl:
            done = self._shell.run(call.line(self.port))
            if done.code != 0:
                raise UnexpectedError(f"no answer: {done.errors.strip()}")
            return _parsed(done.output)
        try:
            return self._by_python(call)
        except (OSError, http.client.HTTPException) as error:
            raise UnexpectedError(f"no answer: {type(error).__name__}") from error

    def _by_python(self, call: Call) -> Answer:
        folder = self._shell.folder
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies chain and host name
        context.load_verify_locations(folder / "root.pem")
        if call.user:
            context.load_cert_chain(folder / f"{call.user}.crt", folder / f"{call.user}.key")
        connection = http.client.HTTPSConnection(
            "localhost", self.port, timeout=_PATIENCE, context=context
        )
        try:
            _send(connection, call, folder)
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, answer.reason, headers, answer.read())
        finally:
            connection.close()


def _send(connection: http.client.HTTPSConnection, call: Call, folder: Path) -> None:
    if call.body:
        connection.request("POST", call.path, (folder / call.body).read_bytes())
    else:
        connection.request("GET", call.path)


def _parsed(output: bytes) -> Answer:
    """Parse the output of ``curl -i``."""
    head, _, body = output.partition(b"\r\n\r\n")
    while head.split(b" ", 2)[1:2] == [b"100"]:  # "100 Continue" comes before the answer
        head, _, body = body.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    try:
        _, status, reason = first.split(" ", 2)
        pairs = (line.split(":", 1) for line in lines)
        headers = {name.lower(): value.strip() for name, value in pairs}
        return Answer(int(status), reason, headers, body)
    except ValueError:
        raise UnexpectedError("curl printed no HTTP answer") from None
