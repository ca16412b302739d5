"""Checks whether a coordinator whose manifest demands ``Witnessed`` serves or is held."""

import time
from collections.abc import Callable

from keyhouse.transparency.note import SignedNote
from support.process.server import Client, Server
from support.samples.deployment import user

__all__ = ["require_held", "until", "until_cosigned", "until_held", "until_served", "upload"]

OPEN = (
    "/api/v2/status",
    "/api/v2/manifest",
    "/api/v2/quote",
    "/api/v2/update",
    "/api/v2/log/checkpoint",
    "/api/v2/log/key",
    "/api/v2/log/tile/entries/000.p/1",
    "/status",
)


def message(client: Client) -> str:
    found = client.get("/api/v2/status").data
    assert found["code"] == 3
    text = found["message"]
    assert isinstance(text, str)
    return text


def until_cosigned(server: Server) -> None:
    """Return once witnesses have cosigned the newest checkpoint of the log."""
    deadline = time.monotonic() + server.patience
    path = "/api/v2/log/checkpoint"
    with server.client() as client:
        while (found := _text(client, path)) != _text(client, f"{path}?newest=true"):
            assert time.monotonic() < deadline, (found, server.logged()[-3000:])
            time.sleep(0.01)  # polls a process: there is no event to wait for


def _text(client: Client, path: str) -> bytes:
    return SignedNote.read(client.get(path).body).text


def until(server: Server, holds: Callable[[str], bool]) -> str:
    """Return the message of the status as soon as ``holds`` accepts the message."""
    deadline = time.monotonic() + server.patience
    with server.client() as client:
        while not holds(found := message(client)):
            assert time.monotonic() < deadline, (found, server.logged()[-3000:])
            time.sleep(0.01)  # polls a process, as above
        return found


def until_served(server: Server) -> None:
    until(server, lambda text: text.startswith("running: "))


def until_held(server: Server, why: str) -> None:
    until(server, lambda text: text.startswith(f"held: {why}"))


def require_held(server: Server) -> None:
    """Fail unless the public routes answer and all other routes are held."""
    with server.client(user("writer")) as client:
        for path in OPEN:
            assert client.get(path).status == 200, path
        held = (
            client.get("/api/v2/secrets?s=key0"),
            client.get("/secrets?s=key0"),
            client.upload({"key0": bytes(16)}),
            client.post("/api/v2/update", {"manifest": ""}),
            client.get("/api/v2/activations"),
        )
        for answer in held:
            assert answer.status == 503, answer.body
            assert "the coordinator is held: " in answer.body.decode()


def upload(server: Server, value: bytes) -> None:
    with server.client(user("writer")) as client:
        assert client.upload({"key0": value}).status == 200
