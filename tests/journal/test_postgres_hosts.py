"""A URL of several servers: unusable servers are skipped, and each failure has a text."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from support.peers.postgres import PASSWORD, PostgresServer

from keyhouse.base.secret import Secret
from keyhouse.journal.offline.postgres_schema import create_schema
from keyhouse.journal.store.postgres_connection import connect
from keyhouse.journal.store.protocol import StoreUnreadableError

Streams = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def backlog_full() -> Iterator[int]:
    """Yield a port of this machine with a full backlog: the kernel drops every SYN."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = listening.getsockname()[1]
        first = [socket.socket() for _ in range(6)]
        for each in first:
            each.settimeout(0)
            each.connect_ex(("127.0.0.1", port))
        try:
            yield port
        finally:
            for each in first:
                each.close()


@asynccontextmanager
async def answering(answer: Streams) -> AsyncIterator[int]:
    """Yield a port with a server that calls ``answer`` for each connection."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read without an answer."""
    while await reader.read(1000):
        pass
    writer.close()


async def closing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close at once, as a load balancer without servers does."""
    writer.close()


async def starting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as PostgreSQL does before it accepts connections."""
    await reader.read(1000)
    told = b"SFATAL\0VFATAL\0C57P03\0M" + PASSWORD.encode() + b"\0\0"
    writer.write(b"E" + struct.pack(">I", len(told) + 4) + told)
    writer.close()


ANSWERS: dict[str, Streams] = {"silent": silent, "closing": closing, "starting": starting}


def url(server: PostgresServer, name: str, *ports: int) -> Secret:
    """Return the URL of the database ``name``, with ``ports`` before the real server."""
    hosts = ",".join([*(f"127.0.0.1:{port}" for port in ports), f"{server.address}:5432"])
    return Secret(f"postgresql://keyhouse:{PASSWORD}@{hosts}/{name}".encode())


async def _is_connected(to: Secret) -> bool:
    connection = await connect(to)
    try:
        return bool(await connection.value("SELECT 1") == 1)
    finally:
        await connection.close()


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_a_server_that_does_not_answer_as_a_primary_is_passed(
    postgres: PostgresServer, answer: Streams
) -> None:
    name = await postgres.database()
    async with answering(answer) as one, answering(answer) as two:
        assert await _is_connected(url(postgres, name, one))
        assert await _is_connected(url(postgres, name, one, two))


async def test_a_server_whose_network_drops_packets_is_passed(postgres: PostgresServer) -> None:
    name = await postgres.database()
    with backlog_full() as port:
        assert await _is_connected(url(postgres, name, port))


async def test_a_standby_that_is_promoted_is_used_while_the_primary_is_silent(
    postgres: PostgresServer,
) -> None:
    """The standby is tried again while the silent server has not failed."""
    name = await postgres.database()
    await postgres.ask(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    # This count outlives a connection. A query of present connections could miss a short one.
    tried = f"SELECT 1 FROM pg_stat_database WHERE datname = '{name}' AND sessions > 0"  # noqa: S608
    async with answering(silent) as port:
        connecting = asyncio.create_task(_is_connected(url(postgres, name, port)))
        while not await postgres.ask(tried):
            pass
        await postgres.ask(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        assert await connecting


TEXTS = {
    "password": ("postgresql://keyhouse:wrong@{address}/{name}", "it refuses the password"),
    "no password": ("postgresql://keyhouse@{address}/{name}", "it refuses the password"),
    "database": ("postgresql://keyhouse:{password}@{address}/missing", "no database of that name"),
    "host": ("postgresql://keyhouse:{password}@nowhere.invalid/{name}", "its name is unknown"),
    "closed": ("postgresql://keyhouse:{password}@127.0.0.1:1/{name}", "it refuses connections"),
    "socket": ("postgresql://keyhouse:{password}@/{name}?host=/nowhere", "no server listens"),
}


@pytest.mark.parametrize("case", TEXTS)
async def test_a_failure_to_connect_has_a_text_of_its_own(
    postgres: PostgresServer, case: str
) -> None:
    text, expected = TEXTS[case]
    filled = text.format(
        address=postgres.address, name=await postgres.database(), password=PASSWORD
    )
    with pytest.raises(StoreUnreadableError, match=expected) as caught:
        await connect(Secret(filled.encode()))
    assert PASSWORD not in str(caught.value)


async def test_a_server_that_starts_is_told_from_one_that_is_away(
    postgres: PostgresServer,
) -> None:
    del postgres
    async with answering(starting) as port:
        to = f"postgresql://keyhouse:{PASSWORD}@127.0.0.1:{port},127.0.0.1:1/x"
        with pytest.raises(StoreUnreadableError) as caught:
            await connect(Secret(to.encode()))
    assert "server 1: it is starting, stopping or recovering" in str(caught.value)
    assert "server 2: it refuses connections" in str(caught.value)
    assert PASSWORD not in str(caught.value)


async def test_a_server_without_a_connection_left_is_named(postgres: PostgresServer) -> None:
    name = await postgres.database()
    await postgres.ask(f"ALTER DATABASE {name} CONNECTION LIMIT 0")
    role = f"plain{os.urandom(4).hex()}"
    await postgres.ask(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    to = f"postgresql://{role}:{PASSWORD}@{postgres.address}/{name}"
    with pytest.raises(StoreUnreadableError, match="no connection left"):
        await connect(Secret(to.encode()))


async def test_a_schema_that_cannot_be_created_has_a_reason(postgres: PostgresServer) -> None:
    name = await postgres.database(empty=True)
    role = f"plain{os.urandom(4).hex()}"
    await postgres.ask(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    to = Secret(f"postgresql://{role}:{PASSWORD}@{postgres.address}/{name}".encode())
    with pytest.raises(StoreUnreadableError, match="may not create schemas"):
        await create_schema(to)
    await create_schema(postgres.url(name))
    with pytest.raises(StoreUnreadableError, match="has this schema already"):
        await create_schema(postgres.url(name))
