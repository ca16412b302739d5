"""Who reaches a console: its own user's browser, after its link, and nobody else."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.peers.console import Console, ask, console, context_of, cookie_of, csrf_of
from support.process.command import run
from support.process.server import PATIENCE, Server

from keyhouse.console.connections import MOST
from keyhouse.console.guard import HOST

pytestmark = pytest.mark.acceptance


def test_a_link_works_once(deployment: Server, consoles: Callable[..., Console]) -> None:
    found = consoles(deployment)
    parts = urlsplit(found.link)

    cookie = cookie_of(found)

    assert ask(found, f"{parts.path}?{parts.query}").status == 403
    assert ask(found, "/open?token=").status == 403
    assert ask(found, "/open").status == 403
    assert ask(found, "/d/prod/trust", cookie).status == 200


def test_nothing_is_answered_without_a_session(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment)
    name = f"keyhouse-console-{found.port}"

    for headers in ({}, {"cookie": f"{name}="}, {"cookie": f"{name}=x"}, {"cookie": "=;=;"}):
        for path in ("/", "/d/prod/trust", "/d/prod/secrets", "/nothing", "/here"):
            answer = ask(found, path, headers)
            assert answer.status == 401
            assert "127.0.0.1:" not in answer.text


def test_another_name_is_refused(deployment: Server, consoles: Callable[..., Console]) -> None:
    found = consoles(deployment)
    cookie = cookie_of(found)

    for host in ("attacker.example.com", f"attacker.example.com:{found.port}", "127.0.0.1", ""):
        answer = ask(found, "/d/prod/trust", {**cookie, "host": host})
        assert answer.status == 403
    assert ask(found, "/d/prod/trust", {**cookie, "host": f"localhost:{found.port}"}).status == 200


def test_foreign_pages_neither_ask_nor_change(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment)
    cookie = cookie_of(found)
    token = csrf_of(found, cookie)
    own = {**cookie, "origin": found.address}

    for site in ("cross-site", "same-site", "anything"):
        assert ask(found, "/d/prod/trust", {**cookie, "sec-fetch-site": site}).status == 403
    for origin in (
        "",
        "null",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        f"https://127.0.0.1:{found.port}",
    ):
        headers = {**cookie, "origin": origin}
        assert ask(found, "/d/prod/trust/verify", headers, csrf=token).status == 403
    for wrong in ("", "x", token[:-1]):
        assert ask(found, "/d/prod/trust/verify", own, csrf=wrong).status == 403
    assert ask(found, "/d/prod/trust/verify", own, other="x").status == 403
    assert ask(found, "/d/prod/trust/verify", own, csrf=token).status == 303


def wait_for(holds: Callable[[], object]) -> None:
    """Wait until ``holds`` returns a true value."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


OTHER = """import os, socket, sys
os.setuid(65534)
port, count = map(int, sys.argv[1:3])
opened, refused = [], 0
for _ in range(count):
    one = socket.socket()
    one.settimeout(10)
    try:
        one.connect(("127.0.0.1", port))
        one.sendall(sys.argv[3].encode())
        opened.append(one)
    except ConnectionError:
        refused += 1
for one in opened:
    try:
        if one.recv(1) == b"":
            refused += 1
    except ConnectionError:
        refused += 1
print(refused)
"""


def as_another_user(found: Console, count: int, sent: str) -> int:
    """Connect ``count`` times as another user, and return the number of refused connections."""
    words = [sys.executable, "-c", OTHER, str(found.port), str(count), sent]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_of_the_machine_gets_nothing_even_with_the_cookie(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment)
    cookie = cookie_of(found)["cookie"]

    host = f"{HOST}:{found.port}"
    whole = f"GET /d/prod/trust HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n\r\n"
    for sent in (whole, "G", ""):
        assert as_another_user(found, 1, sent) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_flood_of_another_user_prints_one_line_and_the_console_still_answers(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment)
    cookie = cookie_of(found)

    assert as_another_user(found, 1200, "GET / HTTP/1.1\r\nhost: ") == 1200

    assert ask(found, "/d/prod/trust", cookie).status == 200
    wait_for(lambda: found.errors)
    assert found.errors == "refused: 1,200 connections of other users\n"


def test_a_flood_of_invalid_requests_prints_one_line(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment)
    for _ in range(100):
        with socket.create_connection((HOST, found.port), timeout=30) as connection:
            connection.sendall(b"no request\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 400"

    wait_for(lambda: found.errors)
    assert found.errors == "refused: 100 invalid requests\n"


def test_connections_are_limited_and_half_requests_end(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment)
    cookie = cookie_of(found)
    with ExitStack() as ends:
        half = [
            ends.enter_context(socket.create_connection((HOST, found.port), timeout=30))
            for _ in range(MOST)
        ]
        for each in half:
            each.sendall(b"GET / HTTP/1.1\r\n")
        beyond = ends.enter_context(socket.create_connection((HOST, found.port), timeout=30))
        assert is_ended(beyond)

        # The console ends them itself, so this waits for as long as a header may last.
        assert all(map(is_ended, half))
        assert ask(found, "/d/prod/trust", cookie).status == 200


def is_ended(connection: socket.socket) -> bool:
    """Wait for the end of ``connection``, and return whether no answer came before."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_every_answer_keeps_scripts_frames_and_caches_out(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment, "writer")
    cookie = cookie_of(found)

    for path in ("/d/prod/trust", "/static/console.js", "/nothing", "/open", "/d/other/trust"):
        headers = ask(found, path, cookie).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert "server" not in headers
    own = {**cookie, "origin": found.address}
    fields = {"csrf": csrf_of(found, cookie), "secret": "note"}
    value = ask(found, "/d/prod/secrets/read", own, **fields)
    assert (value.status, value.headers["cache-control"]) == (200, "no-store")


def test_locking_ends_the_session_and_a_new_link_is_printed(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment)
    cookie = cookie_of(found)
    token = csrf_of(found, cookie)

    own = {**cookie, "origin": found.address}
    assert ask(found, "/lock", own, csrf=token).status == 200
    found.link = found.next_link()

    assert ask(found, "/d/prod/trust", cookie).status == 401
    assert ask(found, "/d/prod/trust", cookie_of(found)).status == 200


def test_a_new_browser_ends_the_session_of_the_one_before(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment)
    first = cookie_of(found)
    own = {**first, "origin": found.address}
    ask(found, "/lock", own, csrf=csrf_of(found, first))
    found.link = found.next_link()
    second = cookie_of(found)

    assert ask(found, "/d/prod/trust", first).status == 401
    assert ask(found, "/d/prod/trust", second).status == 200


def test_a_read_only_console_reads_no_key_and_changes_nothing(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment, "alice", "--read-only")
    (found.home / "user.key").unlink()
    cookie = cookie_of(found)
    own = {**cookie, "origin": found.address}
    token = csrf_of(found, cookie)

    assert "anonymous: this console is read-only" in ask(found, "/d/prod/trust", cookie).text
    for path in ("updates/propose", "updates/approve", "updates/cancel", "secrets/write"):
        answer = ask(found, f"/d/prod/{path}", own, csrf=token, manifest="", plan="x" * 64)
        assert answer.status == 400
        assert "This console is read-only." in answer.text


def test_what_is_no_request_of_a_browser_is_refused(
    deployment: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(deployment)
    cookie = cookie_of(found)

    with closing(http.client.HTTPConnection("127.0.0.1", found.port, timeout=30)) as connection:
        connection.request("PUT", "/d/prod/trust", headers=cookie)
        assert connection.getresponse().status == 405
    assert ask(found, "/static/../serve.py", cookie).status == 404
    assert ask(found, "/d/%2e%2e/trust", cookie).status == 404
    assert ask(found, "/d/other/trust", cookie).status == 404
    headers = {**cookie, "origin": found.address}
    with closing(http.client.HTTPConnection("127.0.0.1", found.port, timeout=30)) as connection:
        connection.request("POST", "/d/prod/updates/plan", b"x" * (25 << 20), headers)
        assert connection.getresponse().status == 413


def test_an_unknown_context_is_refused(tmp_path: Path) -> None:
    ended = run("console", "--context", "nope", env={"HOME": str(tmp_path)})
    assert ended.code == 1
    assert "'nope'" in ended.err


def test_a_connection_that_its_browser_has_closed_is_not_reported(
    deployment: Server, tmp_path: Path
) -> None:
    with console(tmp_path, {"prod": context_of(deployment, tmp_path)}) as found:
        found.process.send_signal(signal.SIGSTOP)
        for _ in range(5):
            socket.create_connection((HOST, found.port), timeout=30).close()
        found.process.send_signal(signal.SIGCONT)
        assert ask(found, "/").status == 401
    assert found.errors == ""
