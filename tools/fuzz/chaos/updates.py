"""The updates of a run: raised security versions, and new manifests by two users together."""

import hashlib
import json
from collections import Counter
from functools import partial
from random import Random
from typing import Final

from fuzz.chaos.clients import Clients
from fuzz.chaos.deployment import FIRST_VERSION, chaos_manifest, fingerprint
from fuzz.chaos.history import Log
from fuzz.chaos.station import Station
from support.samples.deployment import user
from support.samples.updates import Api, raise_version

__all__ = ["Updater", "log_of"]

_API: Final = Api(2)
_FULL: Final = 0.3
"""Share of the updates with a new manifest. Half of them have a new recovery key."""


class Updater:
    """Makes all updates in sequence, because each update continues from the earlier update."""

    def __init__(self, clients: Clients, machines: int, types: int, pause: float) -> None:
        self._clients = clients
        self._machines, self._types = machines, types
        self._pause = pause
        self._number = self._holder = 0
        self._version = FIRST_VERSION

    def update(self, chance: Random, replica: int) -> None:
        """Make the next update."""
        if chance.random() < _FULL:
            self._replace(chance, replica)
        else:
            self._raise(replica)
        self._clients.pause(self._pause)

    def _raise(self, replica: int) -> None:
        self._version += 1
        raw = raise_version(self._version)
        with self._clients.station("releaser", replica, user("releaser")) as station:
            call = partial(_API.update, raw=raw)
            if station.change("version", "write", self._version, call):
                return
        self._cancel(replica)

    def _cancel(self, replica: int) -> None:
        """Cancel a proposal that may be pending without an answer."""
        with self._clients.station("alice", replica, user("alice")) as alice:
            _API.cancel(alice.connection)

    def _replace(self, chance: Random, replica: int) -> None:
        """Propose a manifest as ``alice``, and acknowledge it as ``bob``."""
        self._number += 1
        self._holder += chance.random() < 0.5
        raw = chaos_manifest(
            self._machines, self._types, number=self._number, holder=self._holder,
            version=self._version,
        )  # fmt: skip
        with self._clients.station("alice", replica, user("alice")) as alice:
            proposed = _API.update(alice.connection, raw).status == 200
        if not proposed:
            self._cancel(replica)
            return
        with self._clients.station("bob", replica, user("bob")) as bob:
            agree = partial(_API.acknowledge, raw=raw)
            bob.change("manifest", "write", fingerprint(raw), agree)


def log_of(station: Station) -> Log:
    """Read the update log at a replica."""
    lines = station.connection.get("/api/v2/update").data["updateLog"]
    entries = [json.loads(line) for line in lines]
    return Log(
        replica=station.replica,
        lines=len(lines),
        digest=hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        uploads=Counter(e["secret"] for e in entries if e["update"] == "Secret set"),
        versions=tuple(e["new version"] for e in entries if "new version" in e),
        manifests=tuple(
            e["manifestFingerprint"] for e in entries if e["update"].startswith("Manifest updated")
        ),
    )
