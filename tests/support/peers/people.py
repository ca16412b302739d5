"""All users of a coordinator, each with a persistent connection."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.process.server import Client, Server
from support.samples.deployment import user
from support.samples.updates import together

__all__ = ["People", "deployed"]


class People:
    """The clients of the users, by name; ``nobody`` has no certificate."""

    def __init__(self, server: Server, stack: ExitStack) -> None:
        self.server = server
        self._stack = stack
        self._clients: dict[str, Client] = {}

    def __getattr__(self, name: str) -> Client:
        if name not in self._clients:
            who = None if name == "nobody" else user(name)
            self._clients[name] = self._stack.enter_context(self.server.client(who))
        return self._clients[name]


@contextmanager
def deployed(folder: Path, first: bytes = b"") -> Iterator[People]:
    """Yield the users of a coordinator with the manifest ``first``; empty: ``together()``."""
    with Server(folder / "data") as server, ExitStack() as stack:
        people = People(server, stack)
        assert people.nobody.set_manifest(first or together()).status == 200
        yield people
