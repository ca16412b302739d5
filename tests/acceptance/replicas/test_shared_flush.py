"""Replicas begin to share flushes under load, once no replica of an older version is left."""

import asyncio

import asyncpg
import msgspec
from support.peers.replicas import Load, Replicas, awaited

from keyhouse.coordinator.core.events import FLUSH_LEVEL, FlushShared
from keyhouse.coordinator.hand_off.notes import Membership, Quoted, read_quoted

BEGUN = "the coordinators share flushes from now on"
MEMBERS = "SELECT name, raw FROM keyhouse.note WHERE kind = 'member'"


async def _make_old(url: str) -> None:
    """Let all members be of a version that cannot read early appends."""
    connection = await asyncpg.connect(url)
    try:
        for name, raw in await connection.fetch(MEMBERS):
            quoted = read_quoted(raw)
            membership = Membership.read(quoted.message)
            old = msgspec.structs.replace(membership, level=FLUSH_LEVEL - 1)
            await connection.execute(
                "UPDATE keyhouse.note SET raw = $2 WHERE kind = 'member' AND name = $1",
                name,
                Quoted(old.encode(), quoted.quote).encode(),
            )
    finally:
        await connection.close()


async def _let_an_hour_pass(url: str) -> None:
    """Delete the notes of an older version, as replicas do an hour after the last renewal."""
    connection = await asyncpg.connect(url)
    try:
        for name, raw in await connection.fetch(MEMBERS):
            if Membership.read(read_quoted(raw).message).level < FLUSH_LEVEL:
                await connection.execute(
                    "DELETE FROM keyhouse.note WHERE kind = 'member' AND name = $1", name
                )
    finally:
        await connection.close()


def test_a_rolling_upgrade_ends_with_shared_flushes(replicas: Replicas) -> None:
    assert replicas.url is not None
    url = replicas.url.reveal().decode()
    (first,) = replicas.founded(1)
    asyncio.run(_make_old(url))
    assert first.stop() == 0
    first.start()
    second = replicas.started()
    with Load([first, second]).running() as load:
        load.progress(20)
        assert BEGUN not in first.logged() + second.logged()
        asyncio.run(_let_an_hour_pass(url))
        awaited(BEGUN, first, second)
        load.progress(20)
        third = replicas.started()
        second.kill()
        load.progress()
        second.start()
        load.progress()
    assert all(server.process and server.process.poll() is None for server in (first, third))
    events = replicas.events()
    load.check(events)
    assert sum(isinstance(event, FlushShared) for event in events) == 1


def test_a_lone_replica_that_is_started_again_begins_nothing(replicas: Replicas) -> None:
    (first,) = replicas.founded(1)
    assert first.stop() == 0
    first.start()
    with Load([first]).running() as load:
        load.progress(200)
    assert not any(isinstance(event, FlushShared) for event in replicas.events())
    assert BEGUN not in first.logged()
