"""TLS to the database over a network: a real server, and a server without valid proof."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.peers.peer import Certified, certify
from support.peers.postgres import PASSWORD, PostgresServer

from keyhouse.base.secret import Secret
from keyhouse.journal.shared.url import has_password, store_url
from keyhouse.journal.store.postgres_address import StoreUrlError, address_of
from keyhouse.journal.store.postgres_connection import connect
from keyhouse.journal.store.protocol import StoreUnreadableError

AUTHORITY = certify("authority")
OTHER = certify("another authority")


class Network:
    """A server with TLS, and the files of its clients."""

    def __init__(self, server: PostgresServer, folder: Path, name: str) -> None:
        self.server, self.folder, self.name = server, folder, name

    def file(self, raw: bytes, name: str) -> str:
        path = self.folder / name
        path.write_bytes(raw)
        return str(path)

    async def is_reached(self, query: str, name: str = "") -> bool:
        """Connect; return whether the connection has TLS. Raises the errors of ``connect``."""
        where = f"{self.server.address}/{name or self.name}?{query}"
        connection = await connect(Secret(f"postgresql://keyhouse:{PASSWORD}@{where}".encode()))
        try:
            found = await connection.value(
                "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            )
        finally:
            await connection.close()
        return found is True


@pytest.fixture
async def network(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Network]:
    name = await postgres.database()
    certificate = certify("server", AUTHORITY, is_ca=False, address=postgres.address)
    async with postgres.with_tls(certificate, OTHER):
        yield Network(postgres, tmp_path, name)


async def test_a_server_with_a_certificate_is_used(network: Network) -> None:
    root = network.file(AUTHORITY.pem, "root.pem")
    assert await network.is_reached(f"sslrootcert={root}")
    assert await network.is_reached(f"sslmode=verify-full&sslrootcert={root}")
    assert not await network.is_reached("sslmode=disable")  # allowed on the same machine


async def test_a_server_that_proves_nothing_is_refused(
    network: Network, postgres: PostgresServer
) -> None:
    root = network.file(AUTHORITY.pem, "root.pem")
    wrong = network.file(OTHER.pem, "other.pem")
    for query in ("sslmode=verify-full", f"sslrootcert={wrong}"):
        with pytest.raises(StoreUnreadableError, match="sslrootcert") as caught:
            await network.is_reached(query)
        assert PASSWORD not in str(caught.value)
    elsewhere = certify("server", AUTHORITY, is_ca=False, address="127.0.0.1")
    async with postgres.with_tls(elsewhere, OTHER):
        with pytest.raises(StoreUnreadableError, match="sslrootcert"):
            await network.is_reached(f"sslrootcert={root}")
    # The server accepts only connections without TLS now, and answers this to requests for TLS.
    assert not await network.is_reached("sslmode=disable")
    with pytest.raises(StoreUnreadableError):
        await network.is_reached(f"sslrootcert={root}")


async def test_a_client_shows_its_certificate(network: Network) -> None:
    root = network.file(AUTHORITY.pem, "root.pem")
    with pytest.raises(StoreUnreadableError):
        await network.is_reached(f"sslrootcert={root}", "certified")
    await network.server.ask("DROP DATABASE IF EXISTS certified")
    await network.server.ask(f"ALTER DATABASE {network.name} RENAME TO certified")
    with pytest.raises(StoreUnreadableError):
        await network.is_reached(f"sslrootcert={root}", "certified")
    for issuer, accepted in ((AUTHORITY, False), (OTHER, True)):
        own = certify("client", issuer, is_ca=False)
        cert, key = network.file(own.pem, "own.pem"), network.file(own.key_pem, "own.key")
        query = f"sslrootcert={root}&sslcert={cert}&sslkey={key}"
        if accepted:
            assert await network.is_reached(query, "certified")
        else:
            with pytest.raises(StoreUnreadableError):
                await network.is_reached(query, "certified")


def files(folder: Path, own: Certified) -> dict[str, str]:
    found = {"root": folder / "root", "cert": folder / "cert", "key": folder / "key"}
    found["root"].write_bytes(AUTHORITY.pem)
    found["cert"].write_bytes(own.pem)
    found["key"].write_bytes(own.key_pem)
    (folder / "empty").write_bytes(b"")
    return {name: str(path) for name, path in found.items()} | {"none": str(folder / "empty")}


@pytest.mark.parametrize(
    ("url", "servers", "how"),
    [
        ("postgresql://u@db.example/d", ["db.example:5432"], "TLS"),
        ("postgresql://u@db.example:1,10.0.0.1/d", ["db.example:1", "10.0.0.1:5432"], "TLS"),
        ("postgresql://u@[2001:db8::1]:7/d?sslmode=verify-full", ["2001:db8::1:7"], "TLS"),
        ("postgresql://u@/d?host=db.example&port=9", ["db.example:9"], "TLS"),
        ("postgresql://u@%2Frun%2Fpg,db.example/d", ["/run/pg:5432", "db.example:5432"], "TLS"),
        ("postgresql://u@/d?host=/run/pg", ["/run/pg:5432"], "plain"),
        ("postgresql://u@127.0.0.2/d", ["127.0.0.2:5432"], "plain"),
        ("postgresql://u@[::1]/d?sslmode=disable", ["::1:5432"], "plain"),
        ("postgresql://u@localhost:6/d?sslrootcert={root}", ["localhost:6"], "TLS"),
        ("postgresql://u@h/d?sslrootcert={root}&sslcert={cert}&sslkey={key}", ["h:5432"], "TLS"),
    ],
)
def test_tls_is_used_wherever_a_network_may_be(
    tmp_path: Path, url: str, servers: list[str], how: str
) -> None:
    own = certify("client", OTHER, is_ca=False)
    found = address_of(store_url(url.format(**files(tmp_path, own)), None))
    assert [
        f"{host}:{port}" for host, port in zip(found.hosts, found.ports, strict=True)
    ] == servers
    assert (found.tls is not None) == (how == "TLS")
    assert b"ssl" not in found.url.reveal()
    if found.tls is not None:
        assert found.tls.check_hostname
        assert found.tls.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        *(
            (f"postgresql://u:secret@db.example/d?sslmode={mode}", "verify-full")
            for mode in ("disable", "allow", "prefer", "require", "verify-ca", "")
        ),
        ("postgresql://u:secret@localhost,db.example/d?sslmode=disable", "verify-full"),
        ("postgresql://u:secret@localhost/d?sslmode=prefer", "verify-full"),
        (
            "postgresql://u:secret@localhost/d?sslmode=disable&sslrootcert={root}",
            "sslmode=verify-full",
        ),
        ("postgresql://u:secret@/d", "names no host"),
        ("postgresql://u:secret@db.example@localhost/d", "cannot be read"),
        ("postgresql://u:secret@h:port/d", "cannot be read"),
        ("postgresql://u:secret@h,/d", "cannot be read"),
        ("postgresql://u:secret@localhost/d?standbys=2", "cannot be read"),
        ("postgresql://u:secret@localhost/d?standbys=", "cannot be read"),
        ("postgresql://u:secret@localhost/d?%73tandbys", "cannot be read"),
        ("postgresql://u:secret@h/d?service=other", "not supported"),
        ("postgresql://u:secret@h/d?sslnegotiation=direct", "not supported"),
        ("postgresql://u:secret@h/d?sslrootcert={root}.missing", "sslrootcert"),
        ("postgresql://u:secret@h/d?sslrootcert={none}", "sslrootcert"),
        ("postgresql://u:secret@h/d?sslcert={cert}", "sslkey is missing"),
        ("postgresql://u:secret@h/d?sslcert={cert}&sslkey={root}", "sslcert and sslkey"),
    ],
)
def test_a_url_that_would_trust_the_network_is_refused(
    tmp_path: Path, url: str, problem: str
) -> None:
    own = certify("client", OTHER, is_ca=False)
    with pytest.raises(StoreUrlError, match=problem) as caught:
        store_url(url.format(**files(tmp_path, own)), None)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "has"),
    [
        ("postgresql://u:p@h/d", True),
        ("postgresql://h/d?user=u&password=p", True),
        ("postgresql://h/d?user=u&%70assword=p", True),
        ("postgresql://u@h/d?application_name=password=", False),
        ("postgresql://u@h:5432/d", False),
    ],
)
def test_a_password_in_a_url_is_found_as_the_library_finds_it(url: str, *, has: bool) -> None:
    assert has_password(url) is has
