"""SIGKILL of an enclave, under load in rounds, and at each write to the host: nothing is lost."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.process.gramine import EnclaveServer
from support.process.kills import Ledger, Writer
from support.process.timed_kills import lose_nothing_by_kills_at_writes
from support.samples.deployment import manifest, user

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

WRITERS = 4
ROUNDS = 20


def test_nothing_acknowledged_is_lost_by_a_kill_of_an_enclave_between_two_writes(
    tmp_path: Path, runtime: Path
) -> None:
    """On one of Gramine's encrypted mounts such kills lost all commits since a checkpoint."""

    def make(data: Path, wrapper: Sequence[str]) -> EnclaveServer:
        return EnclaveServer(data, runtime, wrapper=wrapper)

    lose_nothing_by_kills_at_writes(tmp_path, make)


def test_nothing_acknowledged_is_lost_by_kills_of_an_enclave(tmp_path: Path, runtime: Path) -> None:
    chance = random.Random(3)  # noqa: S311 moments, not keys
    server, ledger = EnclaveServer(tmp_path / "data", runtime), Ledger(WRITERS)
    with server, server.client() as client:
        assert client.set_manifest(manifest(WRITERS)).status == 200
        server.kill()
    for _ in range(ROUNDS):
        server.start()
        with server.client(user("writer")) as client:
            ledger.check(client)
        writers = [
            Writer(server.client(user("writer")), f"key{index}", ledger.acknowledged[index] + 1)
            for index in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        writers[0].answered.wait()
        writers[0].join(0.2 * chance.random())
        server.kill()
        for index, writer in enumerate(writers):
            writer.join()
            writer.client.close()
            assert not writer.refused
            ledger.acknowledged[index] = writer.acknowledged
            ledger.attempted[index] = writer.attempted
    with server, server.client(user("writer")) as client:
        ledger.check(client)
    assert sum(ledger.acknowledged) > ROUNDS
