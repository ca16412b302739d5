"""Connections that cost: idle, half open, slow, deaf, garbage. Others are served all the while."""

import os
import random
import resource
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from OpenSSL import SSL
from support.peers.abuse import (
    CONTEXT,
    MIB,
    PATIENCE,
    Wire,
    ask,
    besieged,
    in_parallel,
    memory,
    open_wires,
    raw_socket,
)
from support.peers.https import client_context, make_pair
from support.peers.workloads import grpcio, request
from support.process.server import Server
from support.samples.deployment import manifest

from keyhouse.server.net.limits import WorkloadLimits

pytestmark = pytest.mark.acceptance

STATUS = b"GET /api/v2/status HTTP/1.1\r\nHost: a\r\n\r\n"
MOST_IDLE = 10_000
MOST_WITH_TLS = 1000  # of these; a handshake takes a hundred times as long as a connection
OWN_DESCRIPTORS = 200  # of this process, for other things than connections
FRESH = 15.0  # seconds, half of those after which an idle connection is closed


@contextmanager
def descriptors(wanted: int) -> Iterator[int]:
    """Raise the number of files this process may open; give how many of ``wanted`` it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted + OWN_DESCRIPTORS
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    try:
        yield min(wanted, max(soft, limit) - OWN_DESCRIPTORS)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def raw_sockets(stack: ExitStack, server: Server, count: int) -> list[socket.socket]:
    return [stack.enter_context(raw_socket(server)) for _ in range(count)]


def test_ten_thousand_idle_connections_leave_room_for_others(tmp_path: Path) -> None:
    """The process begins with the usual 1,024 descriptors and takes as many as it may have."""
    few = ("sh", "-c", 'ulimit -Sn 1024; exec "$@"', "sh")
    with (
        descriptors(MOST_IDLE) as count,
        besieged(tmp_path, manifest(), growth=260, wrapper=few) as server,
        ExitStack() as stack,
    ):
        with_tls = min(count // 2, MOST_WITH_TLS)
        idle = raw_sockets(stack, server, count - with_tls)
        wires = in_parallel(
            with_tls, 2, lambda _: (time.monotonic(), stack.enter_context(Wire(server)))
        )
        print(f"{len(idle) + len(wires)} connections")  # noqa: T201 - fewer on a smaller machine
        for begun, wire in wires[::-20]:  # a slow machine takes too long for the first ones
            if time.monotonic() - begun < FRESH:
                wire.send(STATUS)
                assert wire.tls.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_connections_beyond_the_limit_lock_no_workload_out(tmp_path: Path) -> None:
    """More than the workload API takes at a time, none of which even begins its handshake."""
    with (
        descriptors(WorkloadLimits().connections + 100) as count,
        besieged(tmp_path, manifest(), growth=300, told=10) as server,
        ExitStack() as stack,
    ):
        address = ("127.0.0.1", server.mesh_port)
        for _ in range(count):
            stack.enter_context(socket.create_connection(address, timeout=PATIENCE))
        for _ in range(10):
            with grpcio(server.mesh_port) as client:
                assert client.call(request()).code is grpc.StatusCode.OK


def test_a_thousand_half_open_handshakes_end_by_themselves(tmp_path: Path) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        CONTEXT.wrap_bio(incoming, outgoing).do_handshake()
    hello = outgoing.read()
    with besieged(tmp_path, manifest(), growth=100) as server, ExitStack() as stack:
        halves = raw_sockets(stack, server, 1000)
        for number, half in enumerate(halves):
            half.sendall(hello[: len(hello) // 2] if number % 2 else hello)
        for half in halves:
            while half.recv(65536):  # what the server says, until it closes
                pass


def test_slow_senders_of_heads_and_bodies_keep_nobody_waiting(tmp_path: Path) -> None:
    post = b"POST /api/v2/manifest HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
    with (
        besieged(tmp_path, None, growth=100) as server,
        open_wires(server, 200) as wires,
    ):
        for number, wire in enumerate(wires):
            wire.send(b"GET /api/v2/status HTTP/1.1\r\nX: " if number % 2 else post)
        for _ in range(50):
            for wire in wires:
                wire.send(b"x")


def test_clients_that_never_read_share_one_large_answer(tmp_path: Path) -> None:
    """200 clients ask for a manifest of 4 MiB, ten times each, and read nothing."""
    large = manifest()[:-1] + b" " * 4 * MIB + b"}"
    with (
        besieged(tmp_path, large, growth=120) as server,
        open_wires(server, 200) as wires,
    ):
        for wire in wires:
            wire.send(b"GET /api/v2/manifest HTTP/1.1\r\nHost: a\r\n\r\n" * 10)
        with server.client() as client:
            for _ in range(3):
                assert len(client.get("/api/v2/manifest").body) > 5 * MIB


def test_clients_that_send_on_without_reading_are_held_back(tmp_path: Path) -> None:
    """Each sends requests as long as the server takes them, and reads no answer."""
    with (
        besieged(tmp_path, manifest(), growth=64) as server,
        open_wires(server, 200) as wires,
    ):

        def push(number: int) -> int:
            wires[number].tls.settimeout(0.5)
            return wires[number].send_until_cut(STATUS * 500, 50 * MIB)

        sent = in_parallel(len(wires), 50, push)
        assert max(sent) < 40 * MIB  # what kernel buffers on both sides hold
        print(f"taken of each: {max(sent) / MIB:.1f} MiB")  # noqa: T201 - the kernel's buffers


def test_five_thousand_clients_that_leave_at_once_leave_nothing_behind(tmp_path: Path) -> None:
    upload = b'POST /api/v2/secrets HTTP/1.1\r\nHost: a\r\nContent-Length: 14\r\n\r\n{"secrets":{}}'
    quote = b"GET /api/v2/quote?nonce=AAAA HTTP/1.1\r\nHost: a\r\n\r\n"
    sent = (STATUS, upload, quote, b"POST /", STATUS * 20)

    def leave(number: int) -> None:
        if number % 5:  # most without even a handshake
            with raw_socket(server) as raw:
                raw.sendall(os.urandom(20) if number % 2 else b"")
        else:
            with suppress(OSError), Wire(server) as wire:
                wire.send(sent[number // 5 % len(sent)])

    with besieged(tmp_path, manifest(), growth=64) as server:
        in_parallel(1000, 4, leave)
        before = memory(server, "VmRSS")
        in_parallel(4000, 4, leave)
        assert memory(server, "VmRSS") - before < 24 * MIB


def test_garbage_and_failed_handshakes_do_not_fill_the_log(tmp_path: Path) -> None:
    """The log is judged at the end: thousands of failures, no line for any."""
    chance = random.Random(20261121)  # noqa: S311 - the same garbage each time
    beginnings = (
        b"",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
        b"\x16\x03\x03\x40\x00\x01\xff\xff\xff",
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\x17\x03\x03\x00\x20",
        b"\x80\x2e\x01\x00\x02",
    )

    def garble(number: int) -> None:
        with raw_socket(server) as raw, suppress(OSError):
            raw.sendall(beginnings[number % len(beginnings)] + chance.randbytes(number % 3000))
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass

    def break_in_the_middle(number: int) -> None:
        with Wire(server) as wire, socket.socket(fileno=os.dup(wire.tls.fileno())) as below:
            wire.send(STATUS[: number % len(STATUS)])
            with suppress(OSError):
                below.sendall(b"\x17\x03\x03\x00\x40" + os.urandom(64))
                below.settimeout(20)
                while below.recv(65536):
                    pass

    with besieged(tmp_path, manifest(), growth=64) as server:
        in_parallel(2000, 4, garble)
        in_parallel(100, 4, break_in_the_middle)


def test_old_versions_huge_chains_and_renegotiation_are_refused(tmp_path: Path) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    chain = client_context(make_pair("huge", padding=150_000), tmp_path)
    refused = ("a TLS handshake was refused",)
    with besieged(tmp_path, manifest(), growth=64, told=20, warnings=refused) as server:
        for _ in range(20):
            with pytest.raises(ssl.SSLError, match=r"(?i)protocol|alert|version"):
                ask(server, STATUS, old)
            status = 0
            with suppress(OSError):
                status, _ = ask(server, STATUS, chain)
            assert status == 0
            renegotiate(server)


def renegotiate(server: Server) -> None:
    """Ask for a new handshake within a TLS 1.2 connection: it is not begun."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)
    with raw_socket(server) as raw:
        raw.settimeout(None)
        connection = SSL.Connection(context, raw)
        connection.set_connect_state()
        connection.do_handshake()
        connection.renegotiate()
        with pytest.raises(SSL.Error):
            connection.do_handshake()
