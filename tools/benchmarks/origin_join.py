"""A whole join after many starts and updates, beside a join without them.

Coordinators run on one PostgreSQL, each on a simulated machine of its own. The first one is
founded, updated over its Client API, and stopped. Then this process opens its state by its own key
and records many starts through the code of a start: each has a quote of the machine, an object and
a leaf, in a transaction of its own. Five of the processes that it plays are of a version of their
own, so the line names their code. The first coordinator is started again, and others join.

The time of a join is from the start of the process until it listens. Both sides are measured in
turn, so a slow minute hits both. A coordinator that serves looks for asks once a second, so single
times vary by a second. The processor time of the two coordinators does not: it is compared as well.
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
"""Seconds that a join may take more after all of these."""


class Join(NamedTuple):
    """What one join took, in seconds."""

    wall: float
    processor: float  # of the coordinator that joins, and of the one that serves


class Joins(NamedTuple):
    """The joins without a history and behind one, and how many seconds it took to write."""

    plain: list[Join]
    behind: list[Join]
    writing: float


async def _record_starts(server: Server, replicas: Replicas, starts: int) -> None:
    """Record ``starts`` in the state of ``server``, which is stopped."""
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
    """Return an engine over ``storage`` that says it is of ``version``; its start is recorded."""
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
    """Return what one more coordinator takes until it listens; then end it."""
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
    """Return the seconds of processor time that the process of ``server`` has had."""
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
    """Return what was measured in ``folder``, which is empty."""
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
    """Return what was measured, as lines."""
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
