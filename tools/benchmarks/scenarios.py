"""The measurements under load: the rows of the table, and the requests of each row."""

from pathlib import Path
from typing import Final

import msgspec
from benchmarks.coordinator import STATUS
from benchmarks.figures import (
    BARE,
    JOINED,
    JOINING,
    JOINING_LARGE,
    LARGE,
    MEDIUM,
    SHORT,
    SMALL,
    WRITTEN,
    Scenario,
)
from benchmarks.loading import Job
from benchmarks.manifests import (
    LIMITED,
    User,
    marble_name,
    read_target,
    read_targets,
    upload_bodies,
)

__all__ = ["JOINS", "MARBLES", "SCENARIOS", "SECRETS", "Requests"]

SECRETS: Final = {SMALL: 100, MEDIUM: 1000, LARGE: 10_000, WRITTEN: 100}
"""The number of uploaded secrets by server. The server ``SHORT`` has no uploaded secrets."""

MARBLES: Final = {JOINING: 1, JOINING_LARGE: 1000, JOINED: 1}
"""The number of marble types by server, for joins of workloads."""

_HOLDING: Final = tuple(SECRETS)
_ALL: Final = (BARE, *_HOLDING)

SCENARIOS: Final = (
    Scenario("status", "status", _ALL, wanted_of_bare=0.7),
    Scenario("manifest", "manifest, a small one", (BARE, SHORT), wanted_of_bare=0.7),
    Scenario("update", "update log, a short one", (BARE, SHORT), wanted_of_bare=0.7),
    Scenario("quote", "quote without nonce", _ALL, wanted_of_bare=0.7),
    Scenario("read", "read one secret", _ALL, wanted_of_bare=0.7),
    Scenario("read-all", "read all in turn", _ALL, wanted_of_bare=0.7),
    Scenario("new-p256", "new connection, P-256", _ALL),
    Scenario("new-hybrid", "new connection, hybrid", _ALL),
    Scenario("upload-1", "upload alone, p50 µs", _HOLDING, slow="p50", wanted=800),
    Scenario("upload-8", "upload, 8 clients", _HOLDING, wanted=4000),
    Scenario("read-beside", "read beside 8 writers, p99 µs", _HOLDING, slow="p99", wanted=5000),
)

JOINS: Final = tuple(
    Scenario(name, title, tuple(MARBLES), wanted=wanted, wanted_p99=80_000, small=JOINING)
    for name, title, wanted in (
        ("join-p384", "activation, P-384", 340),
        ("join-p256", "activation, P-256", 550),
        ("join-limited", "activation with a limit, P-384", 310),
        ("join-kept", "activation, kept connection", 900),
    )
)
"""Rows of the table of joins. Only the load program in Go supports activations."""

_PATHS: Final = {
    "status": STATUS,
    "manifest": "/api/v2/manifest",
    "update": "/api/v2/update",
    "quote": "/api/v2/quote",
}

_READERS: Final = 32
_NEWCOMERS: Final = 8
_WRITERS: Final = 8
_READERS_BESIDE: Final = 4
_WORKLOADS: Final = 16


class Requests:
    """The requests of all scenarios, in files below a folder, for each number of secrets."""

    def __init__(self, folder: Path, user: User) -> None:
        self._user = user
        self._targets = {size: folder / f"targets-{size}" for size in set(SECRETS.values())}
        self._bodies = {size: folder / f"bodies-{size}" for size in set(SECRETS.values())}
        for size, targets in self._targets.items():
            targets.write_bytes(read_targets(size))
            self._bodies[size].touch(0o600)
            self._bodies[size].write_bytes(upload_bodies(size))
        self._types = {size: folder / f"types-{size}" for size in set(MARBLES.values())}
        for size, types in self._types.items():
            types.write_text("".join(f"{marble_name(number)}\n" for number in range(size)))
        self._limited = folder / "types-limited"
        self._limited.write_text(LIMITED + "\n")

    def job(self, scenario: Scenario, server: str) -> Job:
        """Return the requests to ``server``. The bare server receives those for ``SMALL``."""
        if scenario in JOINS:
            return self._join(scenario.name, server)
        path = _PATHS.get(scenario.name)
        if path is not None:
            return Job(path, clients=_READERS)
        size = SECRETS.get(server, SECRETS[SMALL])
        if scenario.name == "read-all":
            return Job("/", clients=_READERS, user=self._user, targets=self._targets[size])
        if scenario.name.startswith("new-"):
            curve = scenario.name.removeprefix("new-")
            return Job(STATUS, clients=_NEWCOMERS, new_connections=True, curve=curve)
        if scenario.name.startswith("read"):
            clients = _READERS if scenario.name == "read" else _READERS_BESIDE
            return Job(read_target(size // 2), clients=clients, user=self._user)
        return self.writes(size, 1 if scenario.name == "upload-1" else _WRITERS)

    def joins(self, server: str, at_most: int) -> Job:
        """Return activations over kept connections, because these are the fastest activations."""
        return msgspec.structs.replace(self._join("join-kept", server), at_most=at_most)

    def _join(self, name: str, server: str) -> Job:
        return Job(
            "/",
            clients=_WORKLOADS,
            new_connections=name != "join-kept",
            types=self._limited if name == "join-limited" else self._types[MARBLES[server]],
            workload_keys="p384" if name in {"join-p384", "join-limited"} else "p256",
        )

    def beside(self, scenario: Scenario, server: str) -> Job | None:
        """Return the second load on ``server`` at the same time; None: no second load."""
        return self.writes(SECRETS[server]) if scenario.name == "read-beside" else None

    def writes(self, size: int, clients: int = _WRITERS) -> Job:
        """Return uploads of single secrets, to a server with ``size`` secrets."""
        return Job("/api/v2/secrets", clients=clients, user=self._user, bodies=self._bodies[size])
