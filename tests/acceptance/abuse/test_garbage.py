"""Garbage at every route: never a 500, never a library's text, never a changed state."""

from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.peers.answers import (
    Observed,
    as_nobody,
    as_writer,
    checked,
    observe,
    with_web_certificate,
)
from support.peers.garbage import bodies, harmless, queries
from support.process.server import Client, Server

from keyhouse.server.client_api import ROUTES

pytestmark = pytest.mark.acceptance

TARGETS = [(route.method, route.path) for route in ROUTES]


class Targets:
    """Kept connections to a coordinator that runs and to one that waits for a manifest."""

    def __init__(self, running: Server, accepting: Server, stack: ExitStack) -> None:
        self.writer = stack.enter_context(as_writer(running))
        self.nobody = stack.enter_context(as_nobody(running))
        self.early = stack.enter_context(as_nobody(accepting))
        self.early_writer = stack.enter_context(as_writer(accepting))
        self._seen: dict[Client, Observed] = {}  # of each coordinator, by who may write there

    def begin(self) -> None:
        """Begin new connections: kept ones end after 30 s without a request. Look at the state."""
        for client in (self.writer, self.nobody, self.early, self.early_writer):
            client.close()
        self._seen = {client: observe(client) for client in (self.writer, self.early_writer)}

    def wrote(self, client: Client, method: str, target: str, body: bytes) -> bool:
        """Send a request; return whether it wrote."""
        reply = checked(client.call(method, target, body))
        return method == "POST" and reply.status == 200

    def has_changed(self, client: Client) -> bool:
        """Return whether the coordinator of ``client`` is another than when last looked at."""
        before, self._seen[client] = self._seen[client], observe(client)
        return self._seen[client] != before


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Targets]:
    """Two coordinators of this module alone: uploads that happen to be valid succeed."""
    folder = tmp_path_factory.mktemp("garbage")
    running, accepting = Server(folder / "running"), Server(folder / "accepting")
    with running, accepting, ExitStack() as stack:
        made = Targets(running, accepting, stack)
        assert made.nobody.set_manifest(with_web_certificate()).status == 200
        assert made.writer.upload({"note": b"before", "key0": bytes(16)}).status == 200
        yield made
        assert running.stop() == 0
        assert accepting.stop() == 0
        assert "Traceback" not in running.logged() + accepting.logged()
        assert "request failed" not in running.logged() + accepting.logged()


@pytest.mark.parametrize(("method", "path"), TARGETS)
def test_garbage_is_refused_and_changes_nothing(targets: Targets, method: str, path: str) -> None:
    targets.begin()

    @settings(
        max_examples=20,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(body=bodies(path) if method == "POST" else st.just(b""), query=queries)
    def try_one(body: bytes, query: str) -> None:
        target = path + query
        wrote = targets.wrote(targets.writer, method, target, body)
        assert not wrote or path.endswith(("/secrets", "/update"))
        if wrote:
            targets.has_changed(targets.writer)
        for client in (targets.nobody, targets.early, targets.early_writer):
            assert not targets.wrote(client, method, target, body)
        assert not targets.has_changed(targets.writer)
        assert not targets.has_changed(targets.early_writer)

    try_one()
    assert targets.writer.get("/api/v2/status").data["status"] == 3
    assert targets.early.get("/api/v2/status").data["status"] == 2


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    method=st.from_regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}", fullmatch=True).filter(harmless),
    path=st.one_of(
        st.sampled_from([path for _, path in TARGETS]),
        st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=30).filter(
            lambda text: harmless(unquote(text, "latin-1"))
        ),
    ),
    query=queries,
)
def _any_request(targets: Targets, method: str, path: str, query: str) -> None:
    before = observe(targets.writer)
    reply = targets.writer.call(method, f"/{path.lstrip('/')}{query}", b"{}")
    if method != "HEAD":
        checked(reply)
    assert observe(targets.writer) == before


def test_any_method_on_any_path_is_answered(targets: Targets) -> None:
    targets.begin()
    _any_request(targets)
