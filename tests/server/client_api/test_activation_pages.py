"""Pages of the audit trail and of counters: bounded, and each tells where the next begins."""

import uuid
from pathlib import Path

import msgspec
from support.peers.client_api import application_of
from support.samples.activation import deployment, marble_manifest
from support.samples.deployment import user
from support.samples.signing_request import signing_request

from keyhouse.coordinator import Engine, SetCounter
from keyhouse.coordinator.core.decide import COUNTERS
from keyhouse.server.client_api.v2.activations import PAGE_BYTES
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.wire.client_api import Activation, ActivationLimit, Activations, Counters
from keyhouse.wire.json_decoder import decode

JOINED = 90
NAMES = [f"{number:03}." + ".".join(["n" * 63] * 2) + ".test" for number in range(100)]


class Page(msgspec.Struct):
    """An answer with a page."""

    data: Activations


class CountersPage(msgspec.Struct):
    """An answer with what was counted."""

    data: Counters


async def test_page_of_large_entries_is_cut_and_the_next_continues(tmp_path: Path) -> None:
    request = signing_request(NAMES, ())
    raw = marble_manifest({"web": {"Package": "app", "MaxActivations": JOINED}})
    async with deployment(tmp_path, raw) as opened:
        for _ in range(JOINED):
            await opened.join(csr=request)
        start = 0
        found: list[Activation] = []
        while start < opened.engine.view.log.audit.end:
            body = _page(opened.engine, "activations", start)
            assert len(body) <= PAGE_BYTES + 2000  # commas and the envelope
            page = decode(body, Page).data
            assert page.first == start
            assert 0 < len(page.activations) < JOINED
            found += page.activations
            start = page.next
        assert len({entry.uuid for entry in found}) == len(found) == JOINED


async def test_page_of_many_counters_is_cut_and_the_next_continues(tmp_path: Path) -> None:
    gates = {"FeatureGates": ["MonotonicCounter"]}
    limited = {"Package": "app", "MaxActivations": 9}
    raw = marble_manifest(
        {"web": limited, "other": limited, "free": {"Package": "app"}}, Config=gates
    )
    marbles = [str(uuid.uuid4()) for _ in range(3)]
    async with deployment(tmp_path, raw) as opened:
        engine = opened.engine
        for marble in (*marbles, marbles[0]):
            await opened.join(marble=marble)
        for number in range(COUNTERS):  # as many as one may have; the second has too many with it
            await _count(engine, marbles[0], f"n{number:04}")
        await _count(engine, marbles[1], "a")

        pages, start = [], 0
        while start < engine.view.log.audit.end:
            pages.append(_counters(engine, start))
            start = pages[-1].next
        beyond = _counters(engine, 9)

    assert [(page.first, page.next) for page in pages] == [(0, 1), (1, 3), (3, 4)]
    full, small, again = ([(each.uuid, each.counters) for each in page.workloads] for page in pages)
    assert full == again == [(marbles[0], {f"n{number:04}": 5 for number in range(COUNTERS)})]
    assert small == [(marbles[1], {"a": 5})]
    used = {"web": ActivationLimit(4, 9), "other": ActivationLimit(0, 9)}
    assert all(page.limits == used for page in (*pages, beyond))
    assert (beyond.workloads, beyond.next) == ((), 4)


async def _count(engine: Engine, marble: str, name: str) -> None:
    root = engine.view.running.keys.marble_root_cert
    await engine.queue.add(SetCounter(root, ("web", marble), name, 5))


def _counters(engine: Engine, start: int) -> Counters:
    return decode(_page(engine, "counters", start), CountersPage).data


def _page(engine: Engine, name: str, start: int) -> bytes:
    head = Head("GET", f"/api/v2/{name}", b"from=%d" % start, user("admin").der)
    with application_of(engine) as application:
        answer = application.admit(head)
    assert isinstance(answer, Answer)
    return answer.body
