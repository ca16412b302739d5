"""Several coordinators on a database, clients with uploads, and a check of the results."""

import asyncio
import base64
import json
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from keyhouse.attestation import Measurements, open_platform
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.events import Event, SecretsUploaded
from keyhouse.coordinator.core.update_log import entries
from keyhouse.coordinator.engine.records import decode_events
from keyhouse.journal import Opened
from keyhouse.journal.shared.storage import DatabaseStorage
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse_simulation import COORDINATOR, add_machine
from support.process.server import PATIENCE, Client, Reply, Server
from support.replicas.threads import threads
from support.samples.deployment import user
from support.samples.updates import Change, together

NAMES: Final = [f"s{number}" for number in range(8)]
"""Secrets, one secret for each client."""

_BITS: Final = 13
"""Bits of the number of a change: each client makes fewer than 8,192 changes."""


def numbered(name: str, count: int) -> list[str]:
    """Return the secrets of change ``count`` of a client: its own secret, and one for each bit.

    A compaction keeps only the newest values. The update log remains, and names all secrets of
    each change. So the log proves which changes happened, and their order.
    """
    return [name, *(f"{name}-{bit:02}" for bit in range(_BITS) if count >> bit & 1)]


_WRITTEN: Final = [each for name in NAMES for each in numbered(name, (1 << _BITS) - 1)]


def _add_secrets(document: dict[str, Any]) -> None:
    document["Secrets"] |= {name: {"Type": "plain", "UserDefined": True} for name in _WRITTEN}
    document["Roles"]["write"]["ResourceNames"] = ["note", *_WRITTEN]


def manifest(word: str = "first", also: Change = lambda _: None, **config: Any) -> bytes:
    """Return a manifest that ``alice`` may update alone; ``writer`` uploads ``NAMES``.

    ``also`` changes the document further.
    """

    def change(document: dict[str, Any]) -> None:
        _add_secrets(document)
        also(document)

    return together(change, updaters=["alice"], word=word, **{"UpdateThreshold": 1, **config})


def with_replicas(word: str = "first", holders: int = 0, **replicas: Any) -> bytes:
    names = [f"holder{number}" for number in range(holders)]
    config = {"UpdateThreshold": 1, "SealMode": "UniqueKey", "Replicas": replicas}
    return together(_add_secrets, updaters=["alice"], holders=names, word=word, **config)


def propose(server: Server, raw: bytes) -> Reply:
    """Propose the manifest ``raw`` as ``alice``; return the answer."""
    with server.client(user("alice")) as client:
        return client.post("/api/v2/update", {"manifest": base64.b64encode(raw).decode()})


def update(server: Server, raw: bytes) -> None:
    assert propose(server, raw).status == 200


def code_of(server: Server) -> int:
    with server.client() as client:
        code = client.get("/api/v2/status").data["code"]
    assert isinstance(code, int)
    return code


def awaited(text: str, *servers: Server) -> None:
    """Return as soon as a log of ``servers`` contains ``text``."""
    while not any(text in server.logged() for server in servers):
        assert all(server.process and server.process.poll() is None for server in servers)


class Replicas:
    """Coordinators on a simulated machine, each with its own directory in ``folder``."""

    def __init__(self, folder: Path, url: Secret | None, **how: Any) -> None:
        """``url`` None: arguments name the store. ``how``: more parameters of each ``Server``."""
        self.folder, self.url = folder, url
        self.all: list[Server] = []
        self._how = how

    def prepared(self, *arguments: str) -> Server:
        """Return a new coordinator that is not started."""
        data = self.folder / f"replica{len(self.all)}"
        if self.all:
            data.mkdir(mode=0o700)
            shutil.copytree(self.all[0].data / "simulation", data / "simulation")
        return self._added(data, arguments)

    def elsewhere(
        self, *arguments: str, coordinator: Measurements | TdxIdentity = COORDINATOR
    ) -> Server:
        """Return a new coordinator, not started, on its own machine of the same vendor."""
        data = self.folder / f"replica{len(self.all)}"
        data.mkdir(mode=0o700)
        add_machine(data / "simulation", self.all[0].data / "simulation", coordinator=coordinator)
        return self._added(data, arguments)

    def _added(self, data: Path, arguments: Sequence[str]) -> Server:
        environment = {} if self.url is None else {"KEYHOUSE_STORE": self.url.reveal().decode()}
        self.all.append(Server(data, arguments=arguments, environment=environment, **self._how))
        return self.all[-1]

    def started(self, *arguments: str) -> Server:
        """Start a new coordinator; return it when it serves."""
        return self.prepared(*arguments).start()

    def founded(self, count: int = 2, raw: bytes = b"") -> list[Server]:
        """Return ``count`` coordinators on one machine that serve the manifest ``raw``."""
        first = self.started()
        with first.client() as client:
            assert client.set_manifest(raw or manifest()).status == 200
        return [first, *(self.started() for _ in range(1, count))]

    def end(self) -> None:
        """Kill the running coordinators."""
        for server in self.all:
            if server.process is not None and server.process.poll() is None:
                server.kill()

    def events(self) -> list[Event]:
        """Read the last base and all later events from the database."""
        replay = self.opened().replay
        return list(decode_events((*replay.base, *replay.events)))

    def opened(self, by: Server | None = None) -> Opened:
        """Return the content of the database, opened as ``by`` does; None: as the first one."""
        folder = self.folder / "reader"
        folder.mkdir(mode=0o700)
        shutil.copytree((by or self.all[0]).data / "simulation", folder / "simulation")
        platform = open_platform("simulation", folder)

        async def read() -> Opened:
            assert self.url is not None
            storage = await DatabaseStorage.open(
                self.url,
                folder,
                platform_kind=platform.kind,
                sealing_key=platform.sealing_key,
            )
            try:
                found = await storage.load()
            finally:
                await storage.close()
            assert isinstance(found, Opened)
            return found

        found = asyncio.run(read())
        shutil.rmtree(folder)
        return found


class Load:
    """Eight clients; each client uploads values, one after another, to its own secret.

    If a replica does not answer, the client continues at the next replica.
    """

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._ending = threading.Event()
        self._moved = threading.Condition()
        self.acknowledged: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.unknown: set[bytes] = set()
        self.refused: set[bytes] = set()
        self.unexpected: list[object] = []

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Write until the context ends."""
        works = (partial(self._write, name, number) for number, name in enumerate(NAMES))
        with threads(self._ending, works):
            yield self
        assert self.unexpected == []

    def progress(self, number: int = 3) -> None:
        """Wait until each client has ``number`` more acknowledged changes."""
        before = {name: len(values) for name, values in self.acknowledged.items()}

        def moved() -> bool:
            done = (len(values) - before[name] for name, values in self.acknowledged.items())
            return bool(self.unexpected) or min(done) >= number

        with self._moved:
            assert self._moved.wait_for(moved, timeout=PATIENCE), self._servers[-1].logged()[-2000:]

    def count(self) -> int:
        """Return the number of acknowledged changes."""
        return sum(map(len, self.acknowledged.values()))

    def _write(self, name: str, number: int) -> None:
        count = 0
        try:
            while not self._ending.is_set():
                at, number = self._servers[number % len(self._servers)], number + 1
                with suppress(OSError, HTTPException), at.client(user("writer")) as client:
                    client.connection.timeout = 20
                    while not self._ending.is_set():
                        count += 1
                        if not self._upload(client, name, f"{name}.{count}".encode()):
                            break
        except BaseException as error:  # noqa: BLE001 a thread of a test must not end silently
            self.unexpected.append(error)

    def _upload(self, client: Client, name: str, value: bytes) -> bool:
        """Upload ``value`` and record the answer; return False to leave this replica."""
        self.unknown.add(value)
        reply = client.upload(dict.fromkeys(numbered(name, _count_of(value)), value))
        code = reply.envelope.get("data") if reply.status != 200 else None
        if reply.status == 200:
            self.unknown.remove(value)
            with self._moved:
                self.acknowledged[name].append(value)
                self._moved.notify_all()
            return True
        told = json.dumps([code, reply.envelope.get("message")])
        if reply.status == 503 and "not known whether" not in told:
            self.unknown.remove(value)
            self.refused.add(value)
        elif reply.status not in {500, 503}:
            self.unexpected.append((reply.status, told))
        return False

    def check(self, events: Sequence[Event]) -> None:
        """Check ``events``: each acknowledged change once, in order, and no refused changes.

        ``events`` are a base and all later events. The base has the complete update log.
        """
        found = _changes(events)
        for name in NAMES:
            values = [f"{name}.{count}".encode() for count in found[name]]
            assert len(set(values)) == len(values)
            told = set(self.acknowledged[name])
            assert [value for value in values if value in told] == self.acknowledged[name]
            others = set(values) - told
            assert others <= self.unknown
            assert _values(events, name) == values[len(values) - len(_values(events, name)) :]


def _count_of(value: bytes) -> int:
    return int(value.rpartition(b".")[2])


def _changes(events: Iterable[Event]) -> dict[str, list[int]]:
    """Return the numbers of each client's changes, in the order of the update log."""
    found: dict[str, list[int]] = {name: [] for name in NAMES}
    for line in (json.loads(line) for event in events for line in entries(event)):
        name, _, bit = line.get("secret", "").partition("-")
        if name in found and bit:
            found[name][-1] += 1 << int(bit)
        elif name in found:  # a change begins with the secret of the client itself
            found[name].append(0)
    return found


def _values(events: Iterable[Event], name: str) -> list[bytes]:
    """Return the values of the secret ``name`` since the last base, oldest first."""
    uploads = (event.uploads for event in events if isinstance(event, SecretsUploaded))
    return [
        upload.value.private.reveal() for each in uploads for upload in each if upload.name == name
    ]
