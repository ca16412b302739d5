"""Streams of running workloads without a transport. A stream records messages and end."""

import json
from typing import Any

from keyhouse.base.errors import KeyhouseError
from keyhouse.coordinator import Engine
from keyhouse.server.services.watches import Notice, Watches
from support.living.renewal import Living, Workload, living_manifest
from support.samples.deployment import upload

__all__ = ["Stream", "Streams", "put", "watched_manifest"]


def watched_manifest(**sections: Any) -> bytes:
    """Return a manifest with the renewable type ``web``.

    A file of the type has the uploaded secret ``note`` and the workload's secret ``own``.
    """
    content = json.loads(living_manifest(**sections))
    content["Secrets"] |= {
        "note": {"Type": "plain", "UserDefined": True},
        "own": {"Type": "symmetric-key", "Size": 128},
    }
    content["Roles"]["notes"] = {
        "ResourceType": "Secrets",
        "ResourceNames": ["note"],
        "Actions": ["WriteSecret"],
    }
    content["Users"]["admin"]["Roles"].append("notes")
    files = content["Marbles"]["web"]["Parameters"]["Files"]
    files["/note"] = "{{ raw .Secrets.note }} {{ hex .Secrets.own }}"
    return json.dumps(content).encode()


async def put(engine: Engine, value: bytes) -> None:
    """Upload ``value`` as the secret ``note``."""
    await upload(engine, {"note": value}, by="admin")


class Stream:
    """A feed that records all messages."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.error: KeyhouseError | None = None
        self.streams: Streams | None = None

    @property
    def code(self) -> str:
        """The error code of the end; empty while the stream is open."""
        return "" if self.error is None else self.error.code

    def push(self, message: bytes) -> None:
        """Record a message."""
        assert self.error is None
        assert self.streams is not None
        self.notices.append(self.streams.sent[int(message)])

    def end(self, error: KeyhouseError) -> None:
        """Record the end."""
        assert self.error is None
        self.error = error
        self.leave()

    def leave(self) -> None:
        """Do nothing: the stream has not begun."""


class Streams:
    """The streams of a coordinator. A message is the number of a notice."""

    def __init__(self, deployed: Living) -> None:
        self.deployed = deployed
        self.sent: list[Notice] = []
        self.watches = Watches(
            deployed.engine, deployed.renewals.digests, deployed.gate, self._encoded
        )

    def _encoded(self, notice: Notice) -> bytes:
        self.sent.append(notice)
        return b"%d" % (len(self.sent) - 1)

    async def open(self, workload: Workload, certificate: bytes = b"") -> Stream:
        """Open a stream; record the first message."""
        watched = await self.deployed.renewals.watch(workload.certificate)
        stream = Stream()
        stream.streams = self
        stream.notices.append(watched.notice(certificate))
        leave = self.watches.begin(watched, stream)
        if stream.error is None:
            stream.leave = leave  # type: ignore[method-assign]
        else:
            leave()
        return stream
