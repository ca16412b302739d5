"""HTTP on real connections: order, bodies, limits, slow clients, an orderly end."""

import asyncio
import contextlib
import hashlib
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import TimeoutError as NotYet
from functools import partial
from pathlib import Path

import httpx
import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from support.captured_log import capture_logs
from support.peers.https import (
    ALICE,
    ECHO_LIMIT,
    Client,
    Running,
    client_context,
    fingerprint,
    make_pair,
    running,
)

from keyhouse.base.errors import UnavailableError
from keyhouse.server.http.exchange import Admission, Answer, PlacedHead
from keyhouse.server.http.listener import Listener
from keyhouse.server.net.limits import Limits
from keyhouse.server.net.plain_transport import PLAINTEXT
from keyhouse.server.net.tls import TlsContext

GET = b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n"
WAIT = b"POST /wait HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
FAST = Limits(
    header_timeout=0.2,
    body_timeout=0.2,
    linger_timeout=0.2,
    sweep_interval=0.05,
)
IMPATIENT = msgspec.structs.replace(FAST, idle_timeout=0.2)


def post(path: str, body: bytes, *fields: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: a", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.fixture(name="server", scope="module")
def running_server() -> Iterator[Running]:
    with running() as server:
        yield server


@pytest.fixture(name="trust", scope="module")
def client_side(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return client_context(ALICE, tmp_path_factory.mktemp("client"))


def test_answer_has_the_fields_of_the_protocol_and_of_the_route(
    server: Running, trust: ssl.SSLContext
) -> None:
    with Client(server.port, trust) as client:
        client.send(GET)
        status, fields, body = client.answer()
    assert status == 200
    assert fields == {
        "content-type": "application/json",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        "x-test": "1",
        "content-length": str(len(body)),
    }


def judge(server: Running, verdict: Answer | Admission) -> None:
    """Say what becomes of the request that waits to be judged."""
    assert server.probe.waiting.wait(10)
    later = server.probe.verdict
    assert later is not None
    server.do(lambda: later.resolve(lambda: verdict))


@pytest.mark.parametrize("body", [b"", b"12345"])
@pytest.mark.parametrize("admitted", [False, True])
def test_a_head_that_is_judged_later_is_answered_in_order(
    trust: ssl.SSLContext, body: bytes, *, admitted: bool
) -> None:
    """Neither its body nor what follows is read before; then it is as if judged at once."""
    taken = Admission(5, lambda sent: Answer(200, b"[%d]" % len(sent)))
    with running() as server, Client(server.port, trust) as client:
        client.send(post("/judged-later", body) + GET)
        judge(server, taken if admitted else Answer(403, b"{}"))
        status, _, sent = client.answer()
        assert (status, sent) == ((200, b"[%d]" % len(body)) if admitted else (403, b"{}"))
        assert client.answer()[0] == 200
        assert [head.path for head in server.probe.admitted] == ["/judged-later", "/status"]


def test_a_body_that_a_later_verdict_does_not_take_is_refused(trust: ssl.SSLContext) -> None:
    taken = Admission(5, lambda sent: Answer(200, sent))
    with running() as server, Client(server.port, trust) as client:
        client.send(post("/judged-later", b"123456") + GET)
        judge(server, taken)
        assert client.answer()[0] == 413
        assert client.rest() == b""


def test_a_verdict_that_fails_or_that_nobody_waits_for_harms_nothing(
    trust: ssl.SSLContext,
) -> None:
    def fail() -> Answer:
        raise ValueError("a secret")

    with running() as server:
        with Client(server.port, trust) as client:
            client.send(post("/judged-later", b""))
            assert server.probe.waiting.wait(10)
            later = server.probe.verdict
            assert later is not None
            server.do(lambda: later.resolve(fail))
            status, _, body = client.answer()
            assert status == 500
            assert b"secret" not in body
            server.probe.waiting.clear()
            client.send(post("/judged-later", b""))
            assert server.probe.waiting.wait(10)
        left = server.probe.verdict
        assert left is not None
        assert server.do_until(lambda: left.cancelled)
        server.do(lambda: left.resolve(fail))  # nobody hears it
        with Client(server.port, trust) as client:
            client.send(GET)
            assert client.answer()[0] == 200


def conclude(server: Running, result: Answer | Exception | None) -> None:
    """Say what becomes of what ``/concluded`` waits for; None: it has to be tried again."""
    assert server.probe.waiting.wait(10)
    server.probe.waiting.clear()
    future = server.probe.done
    assert future is not None
    if isinstance(result, Exception):
        server.do(partial(future.set_exception, result))
    else:
        server.do(partial(future.set_result, result))


@pytest.mark.parametrize("body", [b"", b"12345"])
def test_an_answer_that_is_made_of_what_was_awaited_comes_in_order(
    trust: ssl.SSLContext, body: bytes
) -> None:
    with running() as server, Client(server.port, trust) as client:
        client.send(post("/concluded", body) + GET)
        conclude(server, Answer(200, b"made"))
        assert client.answer()[::2] == (200, b"made")
        assert client.answer()[0] == 200
        client.send(post("/concluded", body) + post("/echo", b"next"))
        conclude(server, None)
        assert server.probe.waiting.wait(10)
        server.do(server.probe.gate.set)
        assert json.loads(client.answer()[2])["body"] == digest(body)
        assert json.loads(client.answer()[2])["body"] == digest(b"next")


def test_an_answer_that_cannot_be_made_or_that_nobody_waits_for_harms_nothing(
    trust: ssl.SSLContext,
) -> None:
    with running() as server:
        with Client(server.port, trust) as client:
            client.send(post("/concluded", b"12345") + GET)
            conclude(server, ValueError("a secret"))
            status, _, body = client.answer()
            assert status == 500
            assert b"secret" not in body
            assert client.answer()[0] == 200
            client.send(post("/concluded", b"12345"))
            assert server.probe.waiting.wait(10)
        left = server.probe.done
        assert left is not None
        assert server.do_until(left.cancelled)
        with Client(server.port, trust) as client:
            client.send(GET)
            assert client.answer()[0] == 200


def test_a_refusal_may_be_worded_later(trust: ssl.SSLContext) -> None:
    with running() as server, Client(server.port, trust) as client:
        server.probe.refuses_later = True
        client.send(b"GET /status HTTP/9\r\n\r\n" + GET)
        assert server.probe.waiting.wait(10)
        later = server.probe.refusal
        assert later is not None
        server.do(lambda: later.resolve(lambda: Answer(400, b"later")))
        assert client.answer()[::2] == (400, b"later")
        assert client.rest() == b""


def test_the_place_that_a_client_has_seen_is_told_where_it_is_asked_for(
    server: Running, trust: ssl.SSLContext
) -> None:
    field = b"\r\nkeyHouse-at-least: \t 1.2.ab \r\nKeyhouse-At-Least:x"
    sent = GET.replace(b"\r\n", field + b"\r\n", 1)
    with Client(server.port, trust) as client:
        client.send(sent)
        client.answer()
    assert not isinstance(server.probe.admitted[-1], PlacedHead)
    with running(places=True) as placed, Client(placed.port, trust) as client:
        client.send(sent + GET)
        client.answer()
        client.answer()
        with_place, without = placed.probe.admitted
        assert isinstance(with_place, PlacedHead)
        assert with_place.at_least == b"1.2.ab, x"
        assert with_place.plain == without


def test_pipelined_requests_are_answered_in_order_also_behind_a_slow_one(
    trust: ssl.SSLContext,
) -> None:
    with running() as server, Client(server.port, trust) as client:
        client.send(post("/wait", b"first") + post("/echo", b"second") + GET * 300)
        assert server.probe.waiting.wait(10)
        assert [head.path for head in server.probe.admitted] == ["/wait"]
        server.open_gate()
        answers = [client.answer() for _ in range(302)]
    bodies = [json.loads(body)["body"] for _, _, body in answers]
    assert bodies == [digest(b"first"), digest(b"second")] + [digest(b"")] * 300


def test_request_split_at_every_byte_is_the_same_request(
    server: Running, trust: ssl.SSLContext
) -> None:
    for wire in (post("/echo?q", b"hello"), CHUNKED + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"):
        with Client(server.port, trust) as client:
            for cut in range(1, len(wire)):
                client.send(wire[:cut])
                client.send(wire[cut:])
                assert json.loads(client.answer()[2])["body"] == digest(b"hello")
            for byte in wire:
                client.send(bytes([byte]))
            assert json.loads(client.answer()[2])["body"] == digest(b"hello")


BURST = 64
LARGE = b"GET /big?62000 HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("at_once", [BURST, 1], ids=["in one record", "a record each"])
def test_small_requests_are_answered_before_large_answers_to_many_pipelined_ones(
    trust: ssl.SSLContext, at_once: int
) -> None:
    """Ten bursts, and an honest request after each, are there when the server looks."""
    with running() as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server.port, trust)) for _ in range(20)]
        greedy, honest = clients[::2], clients[1::2]

        def send_all() -> None:  # on the loop's thread: the server reads nothing meanwhile
            for one, other in zip(greedy, honest, strict=True):
                for _ in range(0, BURST, at_once):
                    one.send(LARGE * at_once)
                other.send(GET)

        server.do(send_all)
        assert {client.answer()[0] for client in honest} == {200}
        paths = [head.path for head in server.probe.admitted]
        last = len(paths) - 1 - paths[::-1].index("/status")
        before = paths[:last].count("/big") * 62_000
        assert before <= len(greedy) * (Limits().turn_bytes + 62_000)
        for client in greedy:
            assert [len(client.answer()[2]) for _ in range(BURST)] == [62_000] * BURST


def test_large_bodies_arrive_whole(server: Running, trust: ssl.SSLContext) -> None:
    body = bytes(range(256)) * 390
    with Client(server.port, trust) as client:
        client.send(post("/echo", body))
        assert json.loads(client.answer()[2])["body"] == digest(body)
        client.send(CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert json.loads(client.answer()[2])["body"] == digest(body)
    assert server.do(lambda: server.listener._service.anonymous_bodies.held) == 0


def test_large_answers_arrive_whole(server: Running, trust: ssl.SSLContext) -> None:
    with Client(server.port, trust) as client:
        for _ in range(3):
            client.send(b"GET /big?5000000 HTTP/1.1\r\nHost: a\r\n\r\n" * 2)
            assert [len(client.answer()[2]) for _ in range(2)] == [5_000_000] * 2


def test_head_answer_has_no_body(server: Running, trust: ssl.SSLContext) -> None:
    with Client(server.port, trust) as client:
        client.send(b"HEAD /status HTTP/1.1\r\nHost: a\r\n\r\n" + GET)
        status, fields, _ = client.answer(head_only=True)
        assert (status, int(fields["content-length"]) > 0) == (200, True)
        assert client.answer()[0] == 200


def test_other_methods_reach_the_application(server: Running, trust: ssl.SSLContext) -> None:
    with Client(server.port, trust) as client:
        client.send(b"PATCH /status HTTP/1.1\r\nHost: a\r\n\r\n")
        assert json.loads(client.answer()[2])["method"] == "PATCH"


def test_continue_is_said_only_after_admission(server: Running, trust: ssl.SSLContext) -> None:
    expect = b"Host: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    with Client(server.port, trust) as client:
        client.send(b"POST /echo HTTP/1.1\r\n" + expect)
        assert client.answer()[0] == 100
        client.send(b"hello")
        assert client.answer()[0] == 200
        client.send(b"POST /denied HTTP/1.1\r\n" + expect)
        status, fields, _ = client.answer()
        assert (status, fields["connection"]) == (403, "close")
        assert client.rest() == b""


def test_refused_request_whose_small_body_is_there_keeps_the_connection(
    server: Running, trust: ssl.SSLContext
) -> None:
    with Client(server.port, trust) as client:
        client.send(post("/denied", b"hello") + GET)
        assert [client.answer()[0] for _ in range(2)] == [403, 200]


def test_body_over_the_limit_is_refused_at_once_and_the_answer_arrives(
    server: Running, trust: ssl.SSLContext
) -> None:
    taken = len(server.probe.bodies)
    with Client(server.port, trust) as client:
        client.send(post("/echo", b"x" * (ECHO_LIMIT + 400_000)))
        status, fields, body = client.answer()
    assert (status, fields["connection"]) == (413, "close")
    assert json.loads(body)["part"] == "body"
    with Client(server.port, trust) as client:
        client.send(CHUNKED + b"%x\r\nhello" % (ECHO_LIMIT + 1))
        assert client.answer()[0] == 413
    assert len(server.probe.bodies) == taken


def test_refusals_carry_part_and_path_and_close(server: Running, trust: ssl.SSLContext) -> None:
    with Client(server.port, trust) as client:
        client.send(b"HEAD /status HTTP/1.1\r\nHost: a\r\n\r\n")
        client.answer(head_only=True)
        client.send(b"GET / HTTP/1.1\r\n\r\n")
        status, fields, body = client.answer()
        assert (status, fields["connection"], fields["x-refused"]) == (400, "close", "yes")
        assert json.loads(body)["part"] == "headers"
    with Client(server.port, trust) as client:
        client.send(CHUNKED + b"zz\r\n")
        status, _, body = client.answer()
        assert (status, json.loads(body)["path"]) == (400, "/echo")
    with Client(server.port, trust) as client:
        client.send(GET + post("/echo?x", b"{}", "Content-Encoding: gzip"))
        assert client.answer()[0] == 200
        status, _, body = client.answer()
        assert (status, json.loads(body)["path"]) == (415, "/echo")


@pytest.mark.parametrize("sent", [b"\0", b"\0" * 100, b"\0" + GET], ids=["one", "many", "before"])
@pytest.mark.parametrize("before", [b"", GET, GET[:-2] + b"X: " + b"x" * 4000 + b"\r\n\r\n"])
def test_zero_byte_is_no_request_and_repeats_none(
    trust: ssl.SSLContext, before: bytes, sent: bytes
) -> None:
    """Heads that came are recognised when they come again; nothing stands for one that did not."""
    with running() as server, Client(server.port, trust) as client:
        if before:
            client.send(before)
            assert client.answer()[0] == 200
        client.send(sent)
        assert client.answer()[0] == 400
        assert len(server.probe.admitted) == bool(before)


def test_nothing_after_a_refusal_is_read(server: Running, trust: ssl.SSLContext) -> None:
    seen = len(server.probe.admitted)
    with Client(server.port, trust) as client:
        client.send(b"GET / HTTP/1.1\r\nX\r\n\r\n" + GET)
        assert client.answer()[0] == 400
        assert client.rest() == b""
    assert len(server.probe.admitted) == seen


@pytest.mark.parametrize("path", ["/fail", "/fail-later", "/broken"])
def test_unexpected_error_is_an_id_and_nothing_else(path: str, trust: ssl.SSLContext) -> None:
    with capture_logs() as entries, running() as server:
        server.open_gate()
        with Client(server.port, trust) as client:
            status, body = client.get(path)
            assert client.get("/status")[0] == 200
    logged = str(entries)
    assert (status, body["status"], body["data"]) == (500, "error", None)
    number = body["message"].removeprefix("internal error ")
    assert len(number) == 16
    assert number in logged
    assert "ValueError" in logged
    assert "a secret" not in logged + str(body)


def test_client_that_leaves_cancels_its_wait(trust: ssl.SSLContext) -> None:
    with running() as server:
        with Client(server.port, trust) as client:
            client.send(WAIT + b"Content-Length: 5\r\n\r\nhello")
            assert server.probe.waiting.wait(10)
        assert server.probe.cancelled.wait(10)
        assert server.do_until(lambda: server.listener._service.anonymous_bodies.held == 0)


@pytest.mark.parametrize(
    ("sent", "status"),
    [(GET[:20], 408), (WAIT + b"Content-Length: 5\r\n\r\nhe", 408), (CHUNKED, 408)],
    ids=["half a head", "half a body", "no chunk"],
)
def test_slow_client_is_told_and_closed(sent: bytes, status: int, trust: ssl.SSLContext) -> None:
    with running(FAST) as server, Client(server.port, trust) as client:
        client.send(sent)
        assert client.answer()[0] == status
        assert client.rest() == b""
        assert server.do(lambda: server.listener._service.anonymous_bodies.held) == 0


def test_idle_client_is_closed(trust: ssl.SSLContext) -> None:
    with running(IMPATIENT) as server, Client(server.port, trust) as client:
        assert client.rest() == b""
        assert server.do_until(lambda: not len(server.listener.connections))


def test_trickle_does_not_extend_the_time_for_a_head(trust: ssl.SSLContext) -> None:
    limits = msgspec.structs.replace(FAST, header_fields=4_000)
    with running(limits) as server, Client(server.port, trust) as client:
        client.tls.settimeout(0.03)  # far fewer lines than there may be, however slow the server
        client.send(GET[:-4])
        answer = b""
        while not answer:  # ends with the answer; the suite's time-out is the only other way out
            client.send(b"\r\nX: y")
            try:
                answer = client.tls.recv(65536)
            except TimeoutError:
                continue
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_client_that_never_begins_its_handshake_is_closed() -> None:
    with running(Limits(handshake_timeout=0.2)) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
            assert raw.recv(10) == b""
        assert server.do(lambda: server.listener.connections.failed_handshakes) == 1


def test_client_that_does_not_take_its_answers_is_closed(trust: ssl.SSLContext) -> None:
    limits = msgspec.structs.replace(IMPATIENT, slowest_client=10**9)
    with running(limits) as server, Client(server.port, trust) as client:
        client.send(b"GET /big?20000000 HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
        assert server.do_until(lambda: not len(server.listener.connections))
        assert len(client.rest()) < 60_000_000


def test_client_that_stays_after_its_last_answer_is_closed(trust: ssl.SSLContext) -> None:
    with running(FAST) as server, Client(server.port, trust) as client:
        client.send(post("/echo", b"")[:-4] + b"\r\nX\r\n\r\n")
        assert client.answer()[0] == 400
        assert server.do_until(lambda: not len(server.listener.connections))


def test_client_that_sends_on_after_a_refusal_is_cut_off(trust: ssl.SSLContext) -> None:
    limits = Limits(linger_bytes=100_000, linger_timeout=60.0)
    with running(limits) as server, Client(server.port, trust) as client:
        client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
        assert client.answer()[0] == 413
        with pytest.raises(OSError, match=r"."):
            client.send(b"x" * 99_000_000)
        assert server.do_until(lambda: not len(server.listener.connections))


def test_connections_over_the_limit_are_closed_at_once_while_all_others_are_worked_for(
    trust: ssl.SSLContext,
) -> None:
    with running(Limits(connections=2)) as server:
        with Client(server.port, trust) as first, Client(server.port, trust) as second:
            for client in (first, second):
                client.send(WAIT + b"Content-Length: 5\r\n\r\nhello")
            assert server.do_until(lambda: len(server.probe.bodies) == 2)
            with pytest.raises(OSError, match=r"."):
                Client(server.port, trust)
            server.open_gate()
            assert first.answer()[0] == second.answer()[0] == 200
        assert server.do(lambda: server.listener.turned_away) == 1
        assert server.do_until(lambda: not len(server.listener.connections))
        with Client(server.port, trust) as client:
            assert client.get("/status")[0] == 200


def test_connection_over_the_limit_takes_the_place_of_the_one_that_waits_longest(
    trust: ssl.SSLContext,
) -> None:
    with running(Limits(connections=3)) as server, contextlib.ExitStack() as stack:
        half = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
        half.sendall(b"\x16\x03\x01")
        idle, busy = (stack.enter_context(Client(server.port, trust)) for _ in range(2))
        busy.send(WAIT + b"Content-Length: 5\r\n\r\nhello")
        assert server.probe.waiting.wait(10)
        newest = [stack.enter_context(Client(server.port, trust)) for _ in range(2)]
        assert half.recv(100) == idle.rest() == b""
        assert [client.get("/status")[0] for client in newest] == [200, 200]
        for _ in range(20):
            newest.append(stack.enter_context(Client(server.port, trust)))
            assert newest[-1].get("/status")[0] == 200
        server.open_gate()
        assert busy.answer()[0] == 200
        assert server.do(lambda: len(server.listener.connections)) == 3


def test_bodies_in_flight_share_one_memory_limit(trust: ssl.SSLContext) -> None:
    with (
        running(Limits(body_memory=20)) as server,
        Client(server.port, trust) as first,
        Client(server.port, trust) as second,
    ):
        first.send(post("/wait", b"12345678"))
        assert server.probe.waiting.wait(10)
        second.send(post("/echo", b"123"))
        status, fields, _ = second.answer()
        assert (status, fields["retry-after"], fields["connection"]) == (503, "1", "close")
        with Client(server.port, trust) as third:
            third.send(CHUNKED + b"2\r\n12\r\n1\r\n3\r\n0\r\n\r\n")
            assert third.answer()[0] == 503
        server.open_gate()
        assert first.answer()[0] == 200
        first.send(post("/echo", b"1234567890"))
        assert first.answer()[0] == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("farewell", [False, True], ids=["silent", "close_notify"])
def test_request_of_a_client_that_has_left_is_cancelled(
    tmp_path: Path, version: ssl.TLSVersion, *, farewell: bool
) -> None:
    with running() as server:
        with Client(server.port, client_context(ALICE, tmp_path, version=version)) as client:
            client.send(post("/wait", b"hello"))
            assert server.probe.waiting.wait(10)
            if farewell:
                client.tls.settimeout(0)
                with pytest.raises(ssl.SSLWantReadError):  # it does not wait for an answer to it
                    client.tls.unwrap()
        assert server.probe.cancelled.wait(10)
        assert server.do_until(lambda: not len(server.listener.connections))


def test_large_body_that_waits_for_its_turn_gives_way_to_a_small_one(
    trust: ssl.SSLContext,
) -> None:
    with (
        running(Limits(body_memory=64)) as server,
        Client(server.port, trust) as begun,
        Client(server.port, trust) as waits,
        Client(server.port, trust) as small,
    ):
        for client, body in ((begun, b"x" * 16), (waits, b"y" * 14)):
            client.send(post("/queue", body))
            assert server.do_until(partial(server.probe.bodies.__contains__, body))
        small.send(post("/echo", b"123"))
        assert small.answer()[0] == 200
        status, fields, _ = waits.answer()
        assert (status, fields["retry-after"]) == (503, "1")
        server.open_gate()
        assert begun.answer()[0] == 200
        assert server.do(lambda: server.listener._service.anonymous_bodies.held) == 0


def test_stop_answers_what_was_accepted_and_closes_the_rest(trust: ssl.SSLContext) -> None:
    with running() as server, Client(server.port, trust) as idle:
        assert idle.get("/status")[0] == 200
        with Client(server.port, trust) as busy:
            busy.send(WAIT + b"Content-Length: 5\r\n\r\nhe")
            busy.send(b"llo")
            assert server.probe.waiting.wait(10)
            stopped = server.stop(20)
            assert idle.rest() == b""
            with pytest.raises(NotYet):
                stopped.result(0.05)
            with pytest.raises(OSError, match=r"."):
                Client(server.port, trust)
            server.open_gate()
            status, fields, _ = busy.answer()
            assert (status, fields["connection"]) == (200, "close")
            assert busy.rest() == b""
        stopped.result(20)


def test_stop_aborts_what_outlives_its_grace(trust: ssl.SSLContext) -> None:
    with running() as server, Client(server.port, trust) as busy:
        busy.send(WAIT + b"\r\n")
        assert server.probe.waiting.wait(10)
        server.stop(0.1).result(20)
        assert busy.rest() == b""
        assert server.probe.cancelled.is_set()
        assert server.do(lambda: len(server.listener.connections)) == 0


def test_context_is_swapped_under_open_connections(trust: ssl.SSLContext) -> None:
    renewed = make_pair("renewed")
    with running() as server, Client(server.port, trust) as old:
        context = TlsContext(renewed.key, [renewed.certificate])
        generation = server.do(lambda: server.listener.replace_context(context))
        with Client(server.port, trust, old.tls.session) as new:
            assert new.tls.getpeercert(binary_form=True) == renewed.certificate
            assert not new.tls.session_reused
            assert old.get("/status")[1]["identity"] == fingerprint(ALICE)
            old.send(WAIT + b"\r\n")
            assert server.probe.waiting.wait(10)
            server.do(lambda: server.listener.close_before(generation))
            assert new.get("/status")[0] == 200
            server.open_gate()
            assert old.answer()[1]["connection"] == "close"
            assert old.rest() == b""
            assert new.get("/status")[0] == 200


def test_address_in_use_is_named(server: Running) -> None:
    listener = Listener(server.probe, PLAINTEXT)
    with pytest.raises(UnavailableError, match=f"port {server.port}"):
        asyncio.run(listener.start("127.0.0.1", server.port))


WITHOUT_DESCRIPTORS = """
import os, pathlib, resource, socket, sys
from support.peers.https import Client, client_context, running

context = client_context(None, pathlib.Path("."))
with running() as server, Client(server.port, context) as client:
    assert client.get("/status")[0] == 200
    waiting = socket.socket()
    used = len(os.listdir("/proc/self/fd")) - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, 4096))
    waiting.connect(("127.0.0.1", server.port))
    assert server.do_until(lambda: server.listener._pause is not None)
    assert client.get("/status")[0] == 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    with context.wrap_socket(waiting, server_hostname="localhost") as late:
        late.sendall(b"GET /status HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        assert late.recv(100).startswith(b"HTTP/1.1 200 ")
print("served")
"""


def test_listener_without_descriptors_continues_and_recovers() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_DESCRIPTORS],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.endswith(b"served\n"), done.stderr


def test_httpx_keeps_its_connection(server: Running, trust: ssl.SSLContext) -> None:
    with httpx.Client(
        verify=trust, base_url=f"https://127.0.0.1:{server.port}", trust_env=False
    ) as client:
        for number in range(3):
            answer = client.post("/echo", content=b"%d" % number)
            assert answer.json()["body"] == digest(b"%d" % number)
            assert answer.json()["identity"] == fingerprint(ALICE)
        answer = client.post("/echo", content=(b"a" for _ in range(3)))
        assert answer.json()["body"] == digest(b"aaa")
        assert client.post("/denied", content=b"x" * 500_000).status_code == 403


PIECES = st.sampled_from(
    [
        GET,
        post("/echo", b"hello"),
        CHUNKED,
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"GET /status HTTP/1.0\r\n\r\n",
        b"Host: a\r\n",
        b"\r\n",
        b"\n",
        b"POST /denied HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n",
        b"abc",
    ]
) | st.binary(max_size=12)


def test_arbitrary_bytes_get_answers_or_a_close(server: Running, trust: ssl.SSLContext) -> None:
    # Whatever came before, this ends the connection with an answer: it completes no request.
    end = b"\r\n\r\n" + b"\0" * ECHO_LIMIT

    @settings(max_examples=150, deadline=None)
    @given(st.lists(PIECES, min_size=1, max_size=6).map(b"".join))
    def check(wire: bytes) -> None:
        with Client(server.port, trust) as client:
            with contextlib.suppress(OSError):  # closed after the last answer
                client.send(wire + end)
            statuses = [part[:3] for part in client.rest().split(b"HTTP/1.1 ")[1:]]
        assert statuses
        assert set(statuses) <= {b"200", b"400", b"403", b"404", b"413", b"414", b"415", b"501"}
        assert statuses.count(b"400") <= 1

    check()
