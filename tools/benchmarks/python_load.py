"""A load program for machines without Go: options and report as in ``tools/benchmarks/load``.

This program is slower than the servers, so this program limits the requests per second. The
processor time of the servers for each request remains correct. The program does not support the
hybrid key exchange, and activates no workloads.
"""

import argparse
import asyncio
import contextlib
import ipaddress
import math
import os
import ssl
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
import uvloop
from benchmarks.load_report import Latency, LoadReport, ServerCpu

_MAX_CLIENTS: Final = 4096
_MAX_SECONDS: Final = 600.0
_GRACE_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.01
_CURVES: Final = {"p256": "prime256v1", "x25519": "X25519"}


class Plan(msgspec.Struct, frozen=True):
    """Requests, server and duration of a run."""

    host: str
    port: int
    requests: list[bytes]
    clients: int
    seconds: float
    warmup: float
    new_connections: bool
    context: ssl.SSLContext
    pid: int


class Connection:
    """The connection of a client, opened by the first request."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> str:
        """Send a request, read the complete answer, and return the status."""
        if self._streams is None:
            plan = self._plan
            self._streams = await asyncio.open_connection(plan.host, plan.port, ssl=plan.context)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        _, _, rest = head.partition("\r\ncontent-length:")
        await reader.readexactly(int(rest.partition("\r\n")[0]))
        return head[9:12]

    def close(self) -> None:
        """Close the connection; the next request opens a new connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Load:
    """Concurrent clients, and the counts and latencies of the measured window."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.begin = time.perf_counter() + plan.warmup
        self.end = self.begin + plan.seconds
        self.last = self.begin
        self.latencies: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._turn = 0

    async def client(self) -> None:
        """Send requests without pause until the window ends."""
        connection = Connection(self.plan)
        while (begun := time.perf_counter()) < self.end:
            try:
                status = await connection.ask(self._next())
            except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
                connection.close()
                self._count(begun, type(error).__name__, self.failures)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if self.plan.new_connections:
                connection.close()
            self._count(begun, status, self.statuses)
        connection.close()

    def _next(self) -> bytes:
        request = self.plan.requests[self._turn % len(self.plan.requests)]
        self._turn += 1
        return request

    def _count(self, begun: float, outcome: str, counter: Counter[str]) -> None:
        if begun < self.begin:
            return
        self.last = time.perf_counter()
        counter[outcome] += 1
        if outcome == "200":
            self.latencies.append((self.last - begun) * 1e6)


async def measure(plan: Plan) -> LoadReport:
    """Run the plan and return its report.

    A run lasts at most the time in the plan and a grace of 5 seconds.
    """
    load = Load(plan)
    clients = asyncio.gather(*(load.client() for _ in range(plan.clients)))
    await asyncio.sleep(plan.warmup)
    server, own = _server_seconds(plan.pid), time.process_time()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(plan.seconds + _GRACE_SECONDS):
            await clients
    wall = time.perf_counter() - load.begin
    return _report(load, wall, time.process_time() - own, _server_seconds(plan.pid) - server)


def _report(load: Load, wall: float, own: float, server: float) -> LoadReport:
    asked = load.statuses.total() + load.failures.total()
    latencies = sorted(load.latencies)
    took = max(load.last - load.begin, 1e-9)
    tick = 1e6 / os.sysconf("SC_CLK_TCK")
    return LoadReport(
        requests=asked,
        errors=asked - len(latencies),
        statuses=dict(load.statuses),
        failures=dict(load.failures),
        seconds=round(took, 4),
        requests_per_second=round(len(latencies) / took, 1),
        latency_us=Latency(*(_percentile(latencies, share) for share in (0.5, 0.9, 0.99, 1))),
        load_cpu_share=round(own / wall, 3),
        server_cpu=ServerCpu(
            share=round(server / wall, 3),
            us_per_request=round(server * 1e6 / asked, 2),
            resolution_us_per_request=round(2 * tick / asked, 2),
        )
        if load.plan.pid and asked
        else None,
    )


def _percentile(latencies: Sequence[float], share: float) -> float:
    """Return the percentile of sorted latencies by nearest rank; 0 without latencies."""
    if not latencies:
        return 0.0
    return round(latencies[max(math.ceil(share * len(latencies)) - 1, 0)], 1)


def _server_seconds(pid: int) -> float:
    if not pid:
        return 0.0
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = stat.rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _plan() -> Plan:
    parser = argparse.ArgumentParser(prog="python_load", description=__doc__)
    for name in ("url", "method", "bodies", "targets", "cert", "key"):
        parser.add_argument(f"-{name}")
    parser.add_argument("-curve", choices=_CURVES)
    parser.add_argument("-clients", type=int, default=32)
    parser.add_argument("-seconds", type=float, default=2.0)
    parser.add_argument("-warmup", type=float, default=0.3)
    parser.add_argument("-new-connections", action="store_true")
    parser.add_argument("-pid", type=int, default=0)
    given = parser.parse_args()
    location = urlsplit(given.url or "")
    if location.scheme != "https" or not _is_loopback(location.hostname) or not location.port:
        parser.error("-url must be https, with a loopback address by number and a port")
    if not 1 <= given.clients <= _MAX_CLIENTS:
        parser.error(f"-clients must be 1 to {_MAX_CLIENTS}")
    if not (0 < given.seconds <= _MAX_SECONDS and 0 <= given.warmup <= _MAX_SECONDS):
        parser.error(f"-seconds and -warmup must be at most {_MAX_SECONDS:.0f}")
    path = location.path + (f"?{location.query}" if location.query else "")
    return Plan(
        host=location.hostname or "",
        port=location.port or 0,
        requests=_requests(given, location.netloc, path),
        clients=given.clients,
        seconds=given.seconds,
        warmup=given.warmup,
        new_connections=given.new_connections,
        context=_context(given),
        pid=given.pid,
    )


def _is_loopback(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _requests(given: argparse.Namespace, host: str, path: str) -> list[bytes]:
    paths = Path(given.targets).read_text(encoding="ascii").split() if given.targets else [path]
    bodies = Path(given.bodies).read_bytes().splitlines() if given.bodies else [b""]
    closing = "Connection: close\r\n" if given.new_connections else ""
    return [
        f"{given.method or 'GET'} {one} HTTP/1.1\r\nHost: {host}\r\n{closing}"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
        for one in paths
        for body in bodies
    ]


def _context(given: argparse.Namespace) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # loopback, and the requests have no real secrets
    context.set_alpn_protocols(["http/1.1"])
    if given.curve:
        context.set_ecdh_curve(_CURVES[given.curve])
    if given.cert:
        context.load_cert_chain(given.cert, given.key)
    return context


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(uvloop.run(measure(_plan()))).decode() + "\n")
