"""A whole join with a history of many starts and updates, beside a join without a history.

The coordinators use the same PostgreSQL server, each on a separate simulated machine. The first
coordinator receives a manifest and updates over its Client API, and stops. Then this process opens
the state with the sealing key of that machine, and records many starts through the code of a
start. Each start has a quote of the machine, an object and a leaf, in a separate transaction. The
starts have five versions, so the line has an entry for each version. Then the first coordinator
starts again, and further coordinators join.

The time of a join is from the start of the process until it listens. Joins with and without the
history take turns, so a slow minute affects both. A serving coordinator polls for requests once a
second, so single times vary by a second. The processor time of both coordinators does not vary in
this way, so the table compares the processor time too.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from msgspec.structs import replace
from support.peers.postgres import PostgresServer
from support.peers.replicas import Replicas, code_of, update, with_replicas
from support.process.server import Server, listens

from keyhouse.attestation import Platform, open_platform, read_collateral
from keyhouse.attestation.origin.rule import OriginRule
from keyhouse.coordinator import Engine, HostClock, NewDeployment, Origin, StartQuote, open_engine
from keyhouse.journal.shared.storage import DatabaseStorage
from keyhouse.server.process.open_state import process_on
from keyhouse.server.services.line_quotes import LineQuotes
from keyhouse.server.services.quote_checks import QuoteChecks

STARTS: Final = 10_000
UPDATES: Final = 20
CODES: Final = 5
ROUNDS: Final = 9
_RUNNING: Final = 3  # the code of the phase
MOST: Final = 0.3
"""Permitted additional seconds of a join because of the history."""


class Join(NamedTuple):
    """The time and the processor time of a join, in seconds."""

    wall: float
    processor: float  # of the joining and of the serving coordinator


class Joins(NamedTuple):
    """Joins without and with a history, and the seconds to write the history."""

    plain: list[Join]
    behind: list[Join]
    writing: float


async def _record_starts(server: Server, replicas: Replicas, starts: int) -> None:
    """Record ``starts`` starts in the state of the stopped ``server``."""
    platform = open_platform("simulation", server.data)
    bundle = (server.data / "simulation" / "collateral.json").read_bytes()
    for number in range(CODES):
        share = starts // CODES
        storage = await _storage_of(server, replicas, platform)
        try:
            engine = await _engine_on(storage, platform, bundle, version=f"0.1.{number + 1}")
            try:
                for _ in range(share - 1):
                    await engine.announce()
            finally:
                await engine.close()
        finally:
            await storage.close()


async def _storage_of(server: Server, replicas: Replicas, platform: Platform) -> DatabaseStorage:
    assert replicas.url is not None  # noqa: S101 it was given
    return await DatabaseStorage.open(
        replicas.url,
        server.data,
        platform_kind=platform.kind,
        sealing_key=platform.sealing_key,
    )


async def _engine_on(
    storage: DatabaseStorage, platform: Platform, bundle: bytes, version: str
) -> Engine:
    """Return an engine over ``storage`` with the given version, after recording its start."""
    collateral, now = read_collateral(bundle), lambda: datetime.now(UTC)

    @asynccontextmanager
    async def checks() -> AsyncIterator[QuoteChecks]:
        yield QuoteChecks(platform.root_ca, lambda _: collateral, now)

    def make(data: bytes) -> StartQuote:
        return StartQuote(platform.quote(data), bundle)

    origin = Origin(OriginRule(), LineQuotes(platform, checks), claim="", version=version)
    return await open_engine(
        storage,
        clock=HostClock(),
        process=replace(process_on(platform), version=version),
        new=NewDeployment("P-256", (), ()),
        make_quote=make,
        origin=origin,
    )


def _join(replicas: Replicas, serving: Server) -> Join:
    """Measure the join of a further coordinator until it listens, and kill this coordinator."""
    server, before = replicas.elsewhere(), _processor_of(serving)
    began = time.perf_counter()
    process = server.launch()
    while not listens(server.port):
        if process.poll() is not None:
            raise RuntimeError(server.logged())
        time.sleep(0.005)
    wall = time.perf_counter() - began
    processor = _processor_of(server) + _processor_of(serving) - before
    if code_of(server) != _RUNNING:
        raise RuntimeError(server.logged())
    server.kill()
    return Join(wall, processor)


def _processor_of(server: Server) -> float:
    """Return the processor time of the process of ``server``, in seconds."""
    assert server.process is not None  # noqa: S101 it was started
    fields = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii").rsplit(")")[1]
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _founded(postgres: PostgresServer, folder: Path) -> Iterator[tuple[Replicas, Server]]:
    folder.mkdir()
    replicas = Replicas(folder, postgres.url(asyncio.run(postgres.database())), cold=True)
    try:
        (first,) = replicas.founded(1, with_replicas("first"))
        yield replicas, first
    finally:
        replicas.end()


def measure(folder: Path, starts: int = STARTS, rounds: int = ROUNDS) -> Joins:
    """Measure the joins, with all data in the empty ``folder``."""
    with (
        PostgresServer.running() as postgres,
        _founded(postgres, folder / "plain") as (plain, alone),
        _founded(postgres, folder / "behind") as (behind, first),
    ):
        for number in range(UPDATES):
            update(first, with_replicas(f"update {number}"))
        first.stop()
        began = time.perf_counter()
        asyncio.run(_record_starts(first, behind, starts))
        writing = time.perf_counter() - began
        first.start()
        with first.client() as client:
            size = int(client.get("/api/v2/log/checkpoint?newest=true").body.split()[1])
            entries = len(client.get("/api/v2/line?nonce=" + "A" * 22).data["entries"])
        if size < starts or entries < UPDATES + CODES:
            raise RuntimeError(f"the history has {size} leaves and {entries} entries")
        sides = ((plain, alone, list[Join]()), (behind, first, list[Join]()))
        for replicas, serving, _ in sides:
            _join(replicas, serving)
        for _ in range(rounds):
            for replicas, serving, found in sides:
                found.append(_join(replicas, serving))
    return Joins(sides[0][2], sides[1][2], writing)


def table(joins: Joins, starts: int = STARTS) -> str:
    """Return the medians as a text table."""
    lines = [
        f"join after {starts:,} starts and {UPDATES} updates, medians in seconds",
        f"  (the history took {joins.writing:.0f} s to write)",
        "                 until it listens  processor time",
    ]
    plain, behind = (
        Join(*(median(each) for each in zip(*found, strict=True)))
        for found in (joins.plain, joins.behind)
    )
    more = Join(behind.wall - plain.wall, behind.processor - plain.processor)
    for word, found in (("without them", plain), ("with them", behind), ("more", more)):
        lines.append(f"  {word:14} {found.wall:16.2f} {found.processor:15.2f}")
    return "\n".join([*lines, f"  wanted: at most {MOST} s more"])
