"""Connections of the console: their owner, and one line for many refusals."""

import os
import socket

import pytest

from keyhouse.console import peer
from keyhouse.console.connections import RefusalPrinter
from keyhouse.console.peer import Peers


@pytest.mark.parametrize("has_sock_diag", [True, False], ids=["sock_diag", "proc"])
def test_the_owner_of_a_connection(
    has_sock_diag: bool,  # noqa: FBT001 a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not has_sock_diag:
        monkeypatch.setattr(peer, "_kernel", lambda: None)
    peers = Peers()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        far = listening.getsockname()
        with socket.create_connection(far) as near:
            address = near.getsockname()
            assert peers.owner(address, far) == os.geteuid()
            assert peers.owner(far, far) is None
        # The kernel gives user 0 for a socket without a program.
        assert peers.owner(address, far) is None
    peers.close()


def test_many_refusals_are_one_line_after_their_end() -> None:
    lines: list[str] = []
    now = [100.0]
    refusals = RefusalPrinter(lambda: now[0], lines.append)
    for _ in range(1500):
        refusals.add("a")
    refusals.add("b")
    refusals.report()
    assert lines == []
    now[0] += 2
    refusals.report()
    refusals.report(at_once=True)
    assert lines == ["refused: 1,500 a, 1 b"]


def test_a_flood_without_end_is_one_line_per_minute() -> None:
    lines: list[str] = []
    now = [100.0]
    refusals = RefusalPrinter(lambda: now[0], lines.append)
    for _ in range(125):
        refusals.add("a")
        refusals.report()
        now[0] += 1
    assert lines == ["refused: 61 a", "refused: 61 a"]
