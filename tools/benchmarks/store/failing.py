"""Effects on clients of a lost replica, and of a failover of the database to its standby."""

import base64
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from typing import Final

import msgspec
from benchmarks.coordinator import Coordinator
from benchmarks.manifests import User, read_target, secret_name, upload_chunks
from benchmarks.processes import TroubleError
from support.peers.postgres import PostgresServer

__all__ = ["failed_over", "lost", "seen_elsewhere"]

_UPLOADS: Final = "/api/v2/secrets"
_PAUSE_SECONDS: Final = 0.002
_SETTLING_SECONDS: Final = 0.5
_WATCHED_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 60.0


def seen_elsewhere(first: Coordinator, second: Coordinator, user: User, times: int) -> list[float]:
    """Measure reads at ``second`` directly after an upload to ``first``, in µs.

    Raises ``TroubleError`` if ``second`` answers with an older value.
    """
    (body,) = upload_chunks(1)
    name, took = secret_name(0), []
    with closing(first.connection(user)) as writer, closing(second.connection(user)) as reader:
        for number in range(times):
            key = base64.b64encode(number.to_bytes(32, "big")).decode()
            uploaded = body.replace(_key_in(body), key.encode())
            _asked(writer, "POST", _UPLOADS, uploaded)
            begun = time.perf_counter()
            answer = _asked(reader, "GET", read_target(0), b"")
            took.append((time.perf_counter() - begun) * 1e6)
            if msgspec.json.decode(answer)["data"]["secrets"][name]["private"] != key:
                raise TroubleError("a replica answered with an old value")
    return took


def lost(survivor: Coordinator, other: Coordinator, user: User) -> float:
    """Kill ``other``; return the longest time without an acknowledged upload at ``survivor``.

    The time is in ms, of the two seconds after the kill. Meanwhile a client uploads to each of
    the two replicas.
    """
    with _asking(survivor, user) as acknowledged, _asking(other, user):
        time.sleep(_SETTLING_SECONDS)
        killed = time.perf_counter()
        other.process.kill()
        time.sleep(_WATCHED_SECONDS)
        ended = time.perf_counter()
    times = [killed, *(each for each in acknowledged if killed < each < ended), ended]
    return max(after - before for before, after in pairwise(times)) * 1000


def failed_over(
    replica: Coordinator, user: User, primary: PostgresServer, standby: PostgresServer
) -> dict[str, float]:
    """Kill the ``primary``, promote the ``standby``, and return times from the promotion order.

    The times are in ms: until PostgreSQL reports the promotion, until the first answered read, and
    until the first acknowledged upload.
    """
    with _asking(replica, user, reads=True) as read, _asking(replica, user) as uploaded:
        time.sleep(_SETTLING_SECONDS)
        primary.kill()
        time.sleep(_SETTLING_SECONDS)
        ordered = time.perf_counter()
        standby.promote()
        promoted = time.perf_counter()
        _until(lambda: read[-1] > ordered and uploaded[-1] > ordered)
    moments = {
        "promotion by PostgreSQL": promoted,
        "first read answered": min(each for each in read if each > ordered),
        "first upload acknowledged": min(each for each in uploaded if each > ordered),
    }
    return {what: (at - ordered) * 1000 for what, at in moments.items()}


@contextmanager
def _asking(server: Coordinator, user: User, *, reads: bool = False) -> Iterator[list[float]]:
    """Upload, or read, without pause; yield a growing list with the times of the answers."""
    ending, answered = threading.Event(), [0.0]

    def ask() -> None:
        (body,) = upload_chunks(1)
        request = ("GET", read_target(0), b"") if reads else ("POST", _UPLOADS, body)
        while not ending.is_set():
            with (
                suppress(OSError, http.client.HTTPException, TroubleError),
                closing(server.connection(user)) as connection,
            ):
                while not ending.is_set():
                    _asked(connection, *request)
                    answered.append(time.perf_counter())
            time.sleep(_PAUSE_SECONDS)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        _until(lambda: len(answered) > 1)
        yield answered
    finally:
        ending.set()
        thread.join()


def _asked(connection: http.client.HTTPSConnection, method: str, path: str, body: bytes) -> bytes:
    connection.request(method, path, body)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != http.client.OK:
        raise TroubleError(f"{method} was answered with {answer.status}")
    return content


def _key_in(body: bytes) -> bytes:
    key = msgspec.json.decode(body)["secrets"][secret_name(0)]["key"]
    return str(key).encode()


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TroubleError("a replica did not answer again")
        time.sleep(_PAUSE_SECONDS)
