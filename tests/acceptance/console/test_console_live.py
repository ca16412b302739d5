"""Pages are live over one stream, in a real browser; streams are few, and end with the session."""

import http.client
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.peers.console import Console, ask, cookie_of, csrf_of
from support.peers.joined import asked_to_join
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import Api, together

from keyhouse.console.connections import MOST
from keyhouse.console.guard import HOST
from keyhouse.console.live import MOST_STREAMS

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.acceptance


def to(page: "Page", path: str) -> None:
    answer = page.goto(f"{page.url.split('/d/')[0]}/d/prod/{path}")
    assert answer is not None
    assert answer.status == 200, page.inner_text("main")


class Stream:
    """A stream of the console as a program reads it."""

    def __init__(self, found: Console, cookie: dict[str, str], ends: ExitStack) -> None:
        self._connection = ends.enter_context(
            closing(http.client.HTTPConnection("127.0.0.1", found.port, timeout=60))
        )
        headers = {**cookie, "accept": "text/event-stream"}
        self._connection.request("GET", "/d/prod/stream?section=trust&since=0", headers=headers)
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        assert self._answer.getheader("content-type", "").startswith("text/event-stream")
        assert self._answer.readline() == b": open\n"

    def over(self) -> str:
        """Read to the end of the stream, and return the reason for it."""
        text = self._answer.read().decode()
        assert "event: over\n" in text
        return text.split("event: over\ndata: ")[1].strip()


def test_updates_are_live_and_input_is_kept(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        watching, deciding = opened(consoles(server, "bob")), opened(consoles(server, "carol"))
        writing = watching.context.new_page()
        writing.goto(watching.url)
        to(writing, "updates")
        writing.fill("#manifest-text", "my text")
        to(watching, "updates")
        with server.client(user("alice")) as alice:
            assert Api(2).update(alice, together(word="another")).status == 200
        watching.wait_for_selector("text=An update waits for your agreement")
        writing.wait_for_selector("#changed:not([hidden])")
        assert writing.input_value("#manifest-text") == "my text"
        to(deciding, "updates")
        deciding.click("text=Approve…")
        with server.client(user("bob")) as bob:
            assert Api(2).acknowledge(bob, together(word="another")).status == 200
        watching.wait_for_selector("#manifest-text")
        deciding.wait_for_selector("#changed:not([hidden])")
        assert deciding.is_visible("text=Approve this plan")


def test_workloads_are_live(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        page = opened(consoles(server, "alice"))
        to(page, "workloads?show=refused")
        assert "No activation was refused" in page.inner_text("main")
        assert asked_to_join(server, "missing").answer is None
        page.wait_for_selector("td.reason")
        assert "missing" in page.inner_text("td.reason")


def test_the_page_reports_the_end_of_the_console(
    deployment: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    found = consoles(deployment, "alice")
    page = opened(found)
    page.wait_for_function("() => stream && stream.readyState === EventSource.OPEN")
    found.process.send_signal(signal.SIGTERM)
    page.wait_for_selector("#ended:not([hidden])")
    assert "keyhouse console" in page.inner_text("#ended")


def test_streams_are_few_and_end_with_the_session(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment, "alice")
    cookie = cookie_of(found)
    own = {**cookie, "origin": found.address}
    with ExitStack() as ends:
        streams = [Stream(found, cookie, ends) for _ in range(MOST_STREAMS + 2)]
        displaced = [each.over() for each in streams[:2]]
        token = csrf_of(found, cookie)
        assert ask(found, "/lock", own, csrf=token).status == 200
        locked = [each.over() for each in streams[2:]]
        assert ask(found, "/d/prod/stream", cookie).status == 401
    assert displaced == ["displaced"] * 2
    assert locked == ["locked"] * MOST_STREAMS


def test_streams_count_as_connections(deployment: Server, consoles: Callable[..., Console]) -> None:
    found = consoles(deployment, "alice")
    cookie = cookie_of(found)
    with ExitStack() as ends:
        for _ in range(MOST_STREAMS):
            Stream(found, cookie, ends)
        # Each sends no request. The console ends them after the time for a header.
        for _ in range(MOST - MOST_STREAMS):
            ends.enter_context(socket.create_connection((HOST, found.port), timeout=30))
        beyond = ends.enter_context(socket.create_connection((HOST, found.port), timeout=30))
        with suppress(ConnectionError):
            assert beyond.recv(1) == b""
