"""A program for its own network namespace: a replica loses its connection to the database.

A test reads the output and the exit code. The program changes nothing outside of the namespace.
"""

import asyncio
import base64
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from keyhouse.base.secret import Secret
from support.peers.postgres import PASSWORD, PostgresServer
from support.peers.replicas import Load, Replicas
from support.process.server import Server
from support.process.tool import tool
from support.samples.deployment import user


def main() -> None:
    """Run the scenario in the directory of the first argument."""
    subprocess.run([tool("ip"), "link", "set", "lo", "up"], check=True)
    with PostgresServer.running() as server:
        name = asyncio.run(server.database())
        replicas = Replicas(Path(sys.argv[1]), server.url(name))
        try:
            (near,) = replicas.founded(1)
            replicas.url = Secret(
                f"postgresql://keyhouse:{PASSWORD}@{server.address}/{name}".encode()
            )
            _check(server, near, replicas.started(), replicas)
        finally:
            replicas.end()


def _check(server: PostgresServer, near: Server, far: Server, replicas: Replicas) -> None:
    """Let eight clients write to both replicas; ``far`` must return no old value."""
    with Load([near, far]).running() as load, ThreadPoolExecutor(1) as thread:
        load.progress()
        with _cut(server.address):
            _write(near, b"during")
            reading = thread.submit(_read, far)
            _write(near, b"after")
            assert not reading.done()
        assert reading.result() in {b"after", None}
        load.progress()
        _write(near, b"later")
        assert _read(far) == b"later"
    assert far.process is not None
    assert far.process.poll() is None
    load.check(replicas.events())


@contextmanager
def _cut(address: str) -> Iterator[None]:
    """Drop all packets to and from ``address`` until the context ends."""
    rules = f"""
add table ip cut
add chain ip cut output {{ type filter hook output priority 0; policy accept; }}
add rule ip cut output ip daddr {address} drop
add rule ip cut output ip saddr {address} drop
"""
    subprocess.run([tool("nft"), "-f", "-"], input=rules, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run([tool("nft"), "delete", "table", "ip", "cut"], check=True)


def _write(server: Server, value: bytes) -> None:
    with server.client(user("writer")) as client:
        assert client.upload({"note": value}).status == 200


def _read(server: Server) -> bytes | None:
    """Return the value in the answer, or None for status 503."""
    with server.client(user("writer")) as client:
        reply = client.get("/api/v2/secrets?s=note")
    if reply.status == 503:
        return None
    assert reply.status == 200, reply
    return base64.b64decode(reply.data["secrets"]["note"]["private"])


if __name__ == "__main__":
    main()
