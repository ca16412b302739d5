"""A client at one replica. It records its requests and answers."""

import base64
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from typing import Any, NamedTuple

from fuzz.chaos.history import Outcome, Recorder
from support.process.server import Client, Reply
from support.replicas.histories import NoAnswerError

__all__ = ["Station"]


class Station(NamedTuple):
    """One client at one replica."""

    recorder: Recorder
    client: str
    replica: int
    connection: Client

    def change(
        self,
        key: str,
        what: str,
        argument: Any,
        call: Callable[[Client], Reply],
        result: Callable[[Reply], Any] = lambda _: None,
    ) -> bool:
        """Make and record a change; return whether the change was acknowledged.

        Raises ``NoAnswerError`` without an answer, and for a status of 500 or more.
        """
        began = self.recorder.now()
        add = partial(
            self.recorder.add, client=self.client, replica=self.replica, key=key, what=what,
            argument=argument, began=began,
        )  # fmt: skip
        try:
            reply = call(self.connection)
        except (OSError, HTTPException):
            add(outcome=Outcome.UNKNOWN)
            raise NoAnswerError from None
        outcome = {True: Outcome.DONE, False: Outcome.REFUSED, None: Outcome.UNKNOWN}
        shown = result(reply) if reply.happened else None
        add(outcome=outcome[reply.happened], result=shown, **_shown(reply))
        if reply.status >= 500:
            raise NoAnswerError
        return reply.happened is True

    def read(self, key: str, path: str, result: Callable[[Reply], Any]) -> Reply:
        """Read, and record an answered read.

        Raises ``NoAnswerError`` without an answer, and for a status other than 200.
        """
        began = self.recorder.now()
        try:
            reply = self.connection.get(path)
        except (OSError, HTTPException):
            raise NoAnswerError from None
        outcome = Outcome.DONE if reply.status == 200 else Outcome.REFUSED
        self.recorder.add(
            client=self.client, replica=self.replica, key=key, what="read", began=began,
            outcome=outcome, result=result(reply) if reply.status == 200 else None,
            **_shown(reply),
        )  # fmt: skip
        if reply.status != 200:
            raise NoAnswerError
        return reply

    def write_secret(self, name: str, value: str) -> bool:
        """Write a secret; return whether the write was acknowledged."""
        call = partial(Client.upload, values={name: value.encode()})
        return self.change(f"secret {name}", "write", value, call)

    def read_secret(self, name: str) -> None:
        """Read a secret."""
        self.read(f"secret {name}", f"/api/v2/secrets?s={name}", partial(_private_of, name))

    def read_manifest(self) -> None:
        """Read the fingerprint of the manifest."""
        self.read("manifest", "/api/v2/manifest", lambda reply: reply.data["manifestFingerprint"])


def _private_of(name: str, reply: Reply) -> str | None:
    """Return the value of the secret ``name`` in an answer, or None for a secret without value."""
    private = reply.data["secrets"][name]["private"]
    return None if private is None else base64.b64decode(private).decode()


def _shown(reply: Reply) -> dict[str, Any]:
    """Return the status, place and log head of an answer.

    An answer with a status of 500 or more has no confirmed place and head.
    """
    names = {"place": "keyhouse-state", "head": "keyhouse-log"} if reply.status < 500 else {}
    shown = {field: reply.headers.get(name, "") for field, name in names.items()}
    return {"status": reply.status, **shown}
