"""A host with sudden silence during connections, and a slow server.

No test asserts a time. Each test compares with an attempt to connect to a silent server. The
library ends this attempt after ``PATIENCE``, and must skip a silent host before that.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
from support.peers.postgres import PASSWORD, PostgresServer
from support.replicas.cluster import PORT
from support.replicas.proxies import Proxies
from support.samples.state import DEK, STORE_ID

from keyhouse.base.secret import Secret
from keyhouse.journal import Journal, NotDurableError
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.postgres_connection import (
    ConnectionDroppedError,
    PostgresConnection,
    connect,
)
from keyhouse.journal.store.postgres_servers import SILENT
from keyhouse.journal.store.protocol import StoreUnreadableError


@pytest.fixture(name="proxies")
def _proxies(postgres: PostgresServer) -> Iterator[Proxies]:
    """Run three proxies to the server; the third proxy drops all bytes from the beginning."""
    with Proxies.running([(postgres.address, PORT)] * 3) as proxies:
        proxies.order(2, "drop")
        yield proxies


def url(proxies: Proxies, name: str, *ways: int) -> Secret:
    """Return the URL of the database ``name`` through the proxies ``ways``."""
    hosts = ",".join(f"127.0.0.1:{proxies.ports[way]}" for way in ways)
    return Secret(f"postgresql://keyhouse:{PASSWORD}@{hosts}/{name}".encode())


@asynccontextmanager
async def sooner_than_patience(proxies: Proxies) -> AsyncIterator[None]:
    """Require that the context ends before an attempt to connect to a silent server ends."""
    attempt = asyncio.create_task(connect(url(proxies, "postgres", 2)))
    try:
        yield
        assert not attempt.done()
    finally:
        attempt.cancel()
        with suppress(asyncio.CancelledError, StoreUnreadableError):
            await attempt


@asynccontextmanager
async def connection(to: Secret) -> AsyncIterator[PostgresConnection]:
    """Yield a connection, and drop the connection at the end."""
    made = await connect(to)
    try:
        yield made
    finally:
        made.drop()


@pytest.mark.parametrize("fault", ["drop", "ignore"])
@pytest.mark.parametrize("directions", [("up",), ("down",), ("up", "down")])
async def test_a_connection_to_a_silent_host_is_dropped_when_another_way_is_found(
    postgres: PostgresServer, proxies: Proxies, fault: str, directions: tuple[str, ...]
) -> None:
    name = await postgres.database()
    async with connection(url(proxies, name, 0, 1)) as made, sooner_than_patience(proxies):
        proxies.order(0, fault, directions=directions)
        with pytest.raises(ConnectionDroppedError) as caught:
            await made.execute("SELECT 1")
        assert caught.value.reason is SILENT
        assert made.closed


async def test_a_write_to_a_silent_host_is_settled_by_another_way(
    postgres: PostgresServer, proxies: Proxies
) -> None:
    name = await postgres.database()
    store = await PostgresStore.open(url(proxies, name, 0, 1), STORE_ID)
    try:
        journal = await Journal.create(store, store_id=STORE_ID, dek=DEK, base=[b"base"])
        async with sooner_than_patience(proxies):
            proxies.order(0, "drop")
            with pytest.raises(NotDurableError):  # and the write cannot happen later
                await journal.append([b"event"])
            proxies.order(0, "pass")  # the write arrives late
            await journal.append([b"later"])
            assert await journal.store.head() == journal.position
        _, replay = await Journal.open(store, store_id=STORE_ID, dek=DEK)
        assert replay.events == (b"later",)
    finally:
        await store.close()


async def test_a_turn_at_a_silent_host_is_not_waited_for(
    postgres: PostgresServer, proxies: Proxies
) -> None:
    """The only host is silent, so no further connection shows this."""
    name = await postgres.database()
    store = await PostgresStore.open(url(proxies, name, 0), STORE_ID)
    held = "SELECT 1 FROM pg_stat_activity WHERE datname = '{}' AND query LIKE 'SET lock_timeout%'"
    try:
        async with store.turn():  # connects
            while not await postgres.ask(held.format(name)):
                pass
        async with store.turn():
            pass
        async with sooner_than_patience(proxies):
            proxies.order(0, "drop")
            async with store.turn():
                pass
    finally:
        await store.close()


async def test_a_server_that_is_slow_is_waited_for(
    postgres: PostgresServer, proxies: Proxies
) -> None:
    """The server process works, so an answer may come. Here the process waits for a lock."""
    name = await postgres.database()
    tried = asyncio.Semaphore(0)

    async def counted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tried.release()
        writer.close()

    server = await asyncio.start_server(counted, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    hosts = f"127.0.0.1:{port},127.0.0.1:{proxies.ports[0]}"
    to = Secret(f"postgresql://keyhouse:{PASSWORD}@{hosts}/{name}".encode())
    async with server, connection(to) as first, connection(to) as second:
        await tried.acquire()
        await tried.acquire()
        await first.execute("SELECT pg_advisory_lock(1)")
        waiting = asyncio.create_task(second.value("SELECT pg_advisory_lock(1) IS NULL"))
        await tried.acquire()  # by the new connection for the comparison
        for _ in range(3):  # longer than the comparison takes
            async with connection(to) as third:
                assert await third.is_at_work(second.server_pid)
        assert not waiting.done()
        await first.execute("SELECT pg_advisory_unlock(1)")
        await waiting
        assert not second.closed


async def test_an_idle_process_of_the_server_is_told_from_one_at_work(
    postgres: PostgresServer, proxies: Proxies
) -> None:
    name = await postgres.database()
    to = url(proxies, name, 0)
    async with connection(to) as first, connection(to) as second:
        assert not await first.is_at_work(second.server_pid)
        await second.execute("BEGIN")
        assert not await first.is_at_work(second.server_pid)
        assert await first.is_at_work(first.server_pid)
        assert not await first.is_at_work(-1)
