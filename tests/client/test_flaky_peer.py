"""Sessions with a coordinator that drops, delays, and answers nonsense, over real TLS."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.peers.peer import Drip, Fault, Flood, Peer, serving, success
from support.peers.sdk import MODES, Mode, connected, session_with, trust_in_peer

from keyhouse.base.secret import Secret
from keyhouse.client import (
    NO_RETRIES,
    AnswerUnreadableError,
    ClientSetupError,
    Coordinator,
    Retries,
    SecretUpload,
    ServiceUnavailableError,
    Timeouts,
    TrustError,
    UnreachableError,
)
from keyhouse.client.errors import CallUnknownError

STATUS = ("GET", "/api/v2/status")
SECRETS = ("POST", "/api/v2/secrets")
LATER = (
    b"HTTP/1.1 503 Later\r\nConnection: close\r\nContent-Length: 35\r\n\r\n"
    b'{"status":"error","message":"full"}'
)
OPEN = LATER.replace(b"Connection", b"Keyhouse-Outcome: unknown\r\nConnection", 1)
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"
UPLOAD = {"key": SecretUpload(key=Secret(b"value"))}
QUICK = Retries((0.001, 0.001))

pytestmark = pytest.mark.parametrize("mode", MODES)


@contextmanager
def session(mode: Mode, folder: Path, *faults: Fault, **options: Any) -> Iterator[tuple[Any, Peer]]:
    peer = Peer.new()
    peer.replies[STATUS] = success({"code": 3, "message": "running"})
    peer.replies[SECRETS] = success(None)
    peer.faults = list(faults)
    options = dict[str, Any](timeout=10, retries=QUICK) | options
    with serving(peer, folder) as address:
        with Coordinator.connect(address, trust_in_peer(peer)) as verified:  # in the usual time
            trusted = verified.trusted
        with session_with(mode, trusted, **options) as coordinator:
            yield coordinator, peer


def asked(peer: Peer, call: tuple[str, str]) -> int:
    return [(method, path) for method, path, _ in peer.requests].count(call)


@pytest.mark.parametrize("fault", [b"", HALF, b"\x00\xff nonsense\r\n\r\n", LATER], ids=repr)
def test_a_read_is_tried_again(mode: Mode, tmp_path: Path, fault: bytes) -> None:
    with session(mode, tmp_path, fault, fault) as (coordinator, peer):
        assert coordinator.status().code == 3
    assert asked(peer, STATUS) == 3


@pytest.mark.parametrize("fault", [b"", HALF, OPEN, b"\x00\xff nonsense\r\n\r\n"], ids=repr)
def test_a_change_that_may_have_been_made_is_never_sent_twice(
    mode: Mode, tmp_path: Path, fault: bytes
) -> None:
    with (
        session(mode, tmp_path, fault) as (coordinator, peer),
        pytest.raises(UnreachableError) as caught,
    ):
        coordinator.write_secrets(UPLOAD)
    assert caught.value.sent
    assert asked(peer, SECRETS) == 1


def test_a_change_that_was_put_off_is_sent_again(mode: Mode, tmp_path: Path) -> None:
    with session(mode, tmp_path, LATER) as (coordinator, peer):
        coordinator.write_secrets(UPLOAD)
    assert asked(peer, SECRETS) == 2


def test_who_is_always_put_off_hears_why(mode: Mode, tmp_path: Path) -> None:
    with (
        session(mode, tmp_path, LATER, LATER, LATER) as (coordinator, peer),
        pytest.raises(ServiceUnavailableError, match="full"),
    ):
        coordinator.status()
    assert asked(peer, STATUS) == 3


@pytest.mark.parametrize(
    "timeout",
    [Timeouts(read=1), Timeouts(total=1)],
    ids=["between two pieces", "the whole call"],
)
def test_a_coordinator_that_stalls_is_given_up(
    mode: Mode, tmp_path: Path, timeout: Timeouts
) -> None:
    stalled = threading.Event()
    with session(mode, tmp_path, stalled, timeout=timeout, retries=NO_RETRIES) as (coordinator, _):
        try:
            with pytest.raises(UnreachableError, match="in time"):
                coordinator.status()
        finally:
            stalled.set()


def test_an_answer_in_drips_does_not_outlast_the_call(mode: Mode, tmp_path: Path) -> None:
    dripping = Drip(b"HTTP/1.1 200 OK\r\n" + b"X-Slow: yes\r\n" * 1000)
    timeout = Timeouts(read=10, total=1)
    with session(mode, tmp_path, dripping, timeout=timeout, retries=NO_RETRIES) as (coordinator, _):
        try:
            with pytest.raises(UnreachableError, match="in time"):
                coordinator.status()
        finally:
            dripping.enough.set()


def test_an_answer_that_never_begins_does_not_outlast_the_call(mode: Mode, tmp_path: Path) -> None:
    flood = Flood(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
    with (
        session(mode, tmp_path, flood, timeout=1, retries=NO_RETRIES) as (coordinator, _),
        pytest.raises(UnreachableError, match="in time"),
    ):
        coordinator.status()


def test_a_name_that_is_not_text_is_the_callers_doing(mode: Mode, tmp_path: Path) -> None:
    with session(mode, tmp_path) as (coordinator, peer):
        with pytest.raises(ClientSetupError):
            coordinator.secrets(["\udcff"])
        with pytest.raises(ClientSetupError):
            coordinator.write_secrets({"\udcff": UPLOAD["key"]})
        with pytest.raises(ClientSetupError):
            coordinator.raise_counter("\udcff", 1)
        for value in (-1, 2**64):
            with pytest.raises(ClientSetupError):
                coordinator.raise_counter("name", value)
    assert len(peer.requests) == 1


def test_the_coordinator_is_not_asked_again_when_its_answer_is_nonsense(
    mode: Mode, tmp_path: Path
) -> None:
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    with (
        session(mode, tmp_path, reply) as (coordinator, peer),
        pytest.raises(AnswerUnreadableError),
    ):
        coordinator.status()
    assert asked(peer, STATUS) == 1


@pytest.mark.parametrize(
    "head",
    [
        b"200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n",
        b"302 Found\r\nLocation: https://localhost/api/v2/quote\r\nContent-Length: 0\r\n",
        b"200 OK\r\nContent-Length: 9999999\r\n",
    ],
    ids=["compressed", "redirect", "too long"],
)
def test_compressed_redirected_and_endless_answers_are_refused(
    mode: Mode, tmp_path: Path, head: bytes
) -> None:
    reply = b"HTTP/1.1 " + head + b"\r\n" + (b"x" * (1 << 21) if b"999" in head else b"")
    with (
        session(mode, tmp_path, reply) as (coordinator, peer),
        pytest.raises(AnswerUnreadableError),
    ):
        coordinator.status()
    assert len(peer.requests) == 2  # the quote, and this


def test_names_that_fill_no_request_line_are_the_callers_doing(mode: Mode, tmp_path: Path) -> None:
    with (
        session(mode, tmp_path) as (coordinator, _),
        pytest.raises(ClientSetupError, match="request line"),
    ):
        coordinator.secrets(["n" * 70_000])


def test_trust_that_failed_is_not_tried_again(mode: Mode, tmp_path: Path) -> None:
    peer = Peer.new()
    peer.bend_quote = lambda quote: quote[:-1]
    with (
        serving(peer, tmp_path) as address,
        pytest.raises(TrustError),
        connected(mode, address, trust_in_peer(peer), timeout=10, retries=QUICK),
    ):
        pass
    assert len(peer.requests) == 1


def test_a_first_quote_that_is_lost_is_asked_for_again(mode: Mode, tmp_path: Path) -> None:
    peer = Peer.new()
    lost = [True]

    def bend(quote: bytes) -> bytes:
        if lost.pop() if lost else False:
            raise ConnectionAbortedError  # as the host would, on the way
        return quote

    peer.bend_quote = bend
    peer.replies[STATUS] = success({"code": 3})
    with (
        serving(peer, tmp_path) as address,
        connected(mode, address, trust_in_peer(peer), timeout=10, retries=QUICK) as coordinator,
    ):
        assert coordinator.status().code == 3


# --- version 1 of the interface, for coordinators that know no other ---

OLD = [
    ("status", (), "GET", "/status", {"statusCode": 3, "statusMessage": "x"}),
    ("update_log", (), "GET", "/update", '[{"time":"t","update":"u"}]'),
    ("secrets", (["a"],), "GET", "/secrets", {"a": {"type": "plain"}}),
    ("write_secrets", (UPLOAD,), "POST", "/secrets", None),
    ("cancel", (), "POST", "/update-cancel", "cancelled"),
    ("pending", (), "GET", "/update-manifest", {"manifest": "e30=", "missingUsers": ["a"]}),
]


@pytest.mark.parametrize(
    ("name", "arguments", "method", "path", "data"), OLD, ids=[o[0] for o in OLD]
)
def test_an_older_coordinator_is_asked_in_its_version(
    mode: Mode,
    tmp_path: Path,
    name: str,
    arguments: tuple[Any, ...],
    method: str,
    path: str,
    data: Any,
) -> None:
    with session(mode, tmp_path) as (coordinator, peer):
        peer.replies = {(method, path): success(data)}
        getattr(coordinator, name)(*arguments)
    assert [(m, p.partition("?")[0]) for m, p, _ in peer.requests[1:]] == [
        (method, f"/api/v2{path}"),
        (method, path),
    ]


NEVER_OLD: list[tuple[str, Callable[[Any], Any]]] = [
    ("update", lambda session: session.update(b"{}")),
    ("acknowledge", lambda session: session.acknowledge(b"{}")),
    ("recover", lambda session: session.recover(b"share", b"signature")),
    ("recovery_offer", lambda session: session.recovery_offer()),
    ("recovery_secrets", lambda session: session.recovery_secrets()),
    ("sign_quote", lambda session: session.sign_quote(b"quote")),
    ("raise_counter", lambda session: session.raise_counter("name", 1)),
]


@pytest.mark.parametrize(
    "call", [call for _, call in NEVER_OLD], ids=[name for name, _ in NEVER_OLD]
)
def test_what_version_1_has_not_or_does_badly_is_asked_once(
    mode: Mode, tmp_path: Path, call: Callable[[Any], Any]
) -> None:
    with (
        session(mode, tmp_path) as (coordinator, peer),
        pytest.raises(CallUnknownError),
    ):
        call(coordinator)
    assert len(peer.requests) == 2


def test_a_coordinator_without_quotes_over_a_nonce_is_never_asked_for_the_old_ones(
    mode: Mode, tmp_path: Path
) -> None:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/quote"] = (405, b'{"status":"error"}')
    peer.replies["GET", "/quote"] = peer.quote_reply(b"")
    with (
        serving(peer, tmp_path) as address,
        pytest.raises(AnswerUnreadableError),
        connected(mode, address, trust_in_peer(peer), timeout=10),
    ):
        pass
    assert len(peer.requests) == 1
