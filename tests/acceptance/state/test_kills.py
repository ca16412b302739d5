"""SIGKILL under load, again and again: nothing acknowledged is ever lost.

Each round starts the real process, checks that the state holds everything that was acknowledged
before, writes from several connections at once, and kills the process at a moment that differs
from round to round. The first rounds kill it while the first manifest is being set.
"""

import random
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from support.process.kills import Ledger, Writer
from support.process.server import Client, Server
from support.samples.deployment import manifest, user

pytestmark = pytest.mark.acceptance

WRITERS = 4
ROUNDS_EACH = 25
SLICES = 8  # 8 * 25 = 200 kills, and more in the campaign: scripts/fuzz kills=2000


def _pauses(seed: int) -> Iterator[float]:
    chance = random.Random(seed)  # noqa: S311 moments, not keys
    while True:
        yield chance.choice([0.0, 0.001, 0.01, 0.05, 0.2]) * chance.random()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", range(SLICES))
def test_nothing_acknowledged_is_lost_by_kills_under_concurrent_writes(
    tmp_path: Path, number: int
) -> None:
    server, ledger = Server(tmp_path / "data"), Ledger(WRITERS)
    pauses = _pauses(number)
    with server, server.client() as client:
        assert client.set_manifest(manifest(WRITERS)).status == 200
        fingerprint = client.get("/api/v2/manifest").data["manifestFingerprint"]
        root = client.get("/api/v2/quote").data["cert"]
        server.kill()
    log_length = 0
    for _ in range(ROUNDS_EACH):
        server.start()
        with server.client() as client:
            assert client.get("/api/v2/status").data["code"] == 3
            assert client.get("/api/v2/manifest").data["manifestFingerprint"] == fingerprint
            assert client.get("/api/v2/quote").data["cert"] == root
            length = len(client.get("/api/v2/update").data["updateLog"])
            assert length >= log_length
            log_length = length
        with server.client(user("writer")) as client:
            ledger.check(client)
        writers = [
            Writer(server.client(user("writer")), f"key{index}", ledger.acknowledged[index] + 1)
            for index in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        writers[0].join(next(pauses))
        server.kill()
        for index, writer in enumerate(writers):
            writer.join()
            writer.client.close()
            assert not writer.refused
            ledger.acknowledged[index] = writer.acknowledged
            ledger.attempted[index] = writer.attempted
    server.start()
    with server.client(user("writer")) as client:
        ledger.check(client)
        log = client.get("/api/v2/update").data["updateLog"]
    assert len(log) == 1 + sum(ledger.acknowledged)
    assert server.stop() == 0


@pytest.mark.timeout(240)
def test_a_kill_while_the_first_manifest_is_set_leaves_all_of_it_or_nothing(
    tmp_path: Path,
) -> None:
    seen: set[int] = set()
    chance = random.Random(7)  # noqa: S311 moments, not keys
    moment = 0.02  # seconds until the kill: sought where it just saves or just prevents the commit
    for number in count():
        if number >= ROUNDS_EACH and seen == {2, 3}:  # the kills did fall on both sides
            break
        server = Server(tmp_path / f"data{number}").start()
        client = server.client()
        answered: list[int] = []

        def set_manifest(client: Client = client, answered: list[int] = answered) -> None:
            try:
                answered.append(client.set_manifest(manifest(WRITERS)).status)
            except OSError:
                return

        setter = threading.Thread(target=set_manifest, daemon=True)
        setter.start()
        setter.join(moment * (0.5 + chance.random()))
        server.kill()
        setter.join()
        client.close()
        with server, server.client() as client:
            code = client.get("/api/v2/status").data["code"]
            assert code in {2, 3}
            if answered:
                assert (answered, code) == ([200], 3)
            if code == 3:
                assert len(client.get("/api/v2/update").data["updateLog"]) == 1
        seen.add(code)
        moment *= 0.7 if code == 3 else 1.5
