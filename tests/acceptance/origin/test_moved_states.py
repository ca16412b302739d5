"""An invented state that the commands for states move in place of a genuine one, under a claim.

The host has the data key of a genuine deployment: it began that one itself, without a claim, and
the only recovery key is its own. So the genuine ``sealed_key`` opens what the host invents around
that data key. The line of the invented root begins with the claimed manifest, and its quotes are of
an enclave of the host.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from support.host.client import accepts, end, is_served
from support.host.copies import begin_invented_epoch
from support.host.enclave import HOST_CODE, code_of_quotes
from support.host.invented_state import InventedState, invent, with_line
from support.peers.postgres import Database, PostgresServer
from support.process.command import run
from support.process.server import Server
from support.samples.recovery import ciphertexts_of, hand_in, holder, recoverable

from keyhouse.base.secret import Secret
from keyhouse.journal.directory.sealing import parse
from keyhouse.journal.store.protocol import CHAIN_SIZE, Position
from keyhouse_simulation import add_machine

pytestmark = pytest.mark.acceptance

GOOD, HOST = holder("good"), holder("the host's")
EXPECTED = recoverable([GOOD])
CLAIM = ("--claim-fingerprint", hashlib.sha256(EXPECTED).hexdigest())
LINE = (EXPECTED, recoverable([HOST]), EXPECTED)
"""Behind the claimed manifest, and in force again: as in the host's own deployment."""

OTHER_PLACE = "sealed_key is at epoch 1, journal.db at epoch 2"
"""In a directory the seal names an epoch. In a database any replica may have begun the next one."""

OTHER_ROOT = "the state is not the state that was proven before: the root certificate differs"
MADE_BY = "nothing proves that this root was made by accepted code: it was made by UniqueID:"


class Attack(NamedTuple):
    """The directory of the genuine coordinator, which is stopped, and what the host invented."""

    genuine: Path
    state: InventedState
    folder: Path

    def place(self) -> Position:
        """Return a place of the genuine journal, which the invented epoch claims to follow."""
        return Position(1, 1000, os.urandom(CHAIN_SIZE))

    def invented(self, name: str, *, sealed: bool = True) -> Path:
        """Return a state directory with the invented state, on the genuine machine."""
        data = self.folder / name
        key = (self.genuine / "sealed_key").read_bytes() if sealed else b""
        self.state.write_directory(data, after=self.place(), sealed_key=key)
        shutil.copytree(self.genuine / "simulation", data / "simulation")
        return data

    def require_refused(self, data: Path, *arguments: str, reason: str = OTHER_PLACE) -> None:
        """Require that no coordinator serves it, by the seal or by a recovery.

        ``reason``: why the seal does not open it.
        """
        victim = Server(data, arguments=(*CLAIM, *arguments))
        try:
            served = is_served(victim)
            assert not (served and accepts(victim, EXPECTED, self.state.root_der))
            if served:  # in recovery mode
                with victim.client() as client:
                    share = HOST.share(self.state.running.recovery.ciphertexts[HOST.name])
                    refused = hand_in(client, share, HOST.sign(share))
                assert refused.status == 400
                assert MADE_BY in refused.envelope["message"]
                assert not accepts(victim, EXPECTED, self.state.root_der)
            else:
                assert reason in victim.logged()
        finally:
            end(victim)


def invent_on(genuine: Path, folder: Path, *line: bytes) -> InventedState:
    """Return a state under ``line``, around the data key of the deployment in ``genuine``."""
    with Server(genuine) as server, server.client() as client:
        shares = ciphertexts_of(client.set_manifest(recoverable([HOST])))
    dek = Secret(HOST.share(shares[HOST.name]))
    store_id = parse((genuine / "sealed_key").read_bytes()).store_id
    enclave = add_machine(folder / "enclave", genuine / "simulation", coordinator=HOST_CODE)
    state = invent(*line, dek=dek, store_id=store_id)
    return with_line(state, line, code_of_quotes(HOST_CODE), enclave.quote)


@pytest.fixture(name="attack", params=["own seal", "recovery"])
def _attack(tmp_path: Path, request: pytest.FixtureRequest) -> Attack:
    """The manifest in force of an invented state that is to be recovered is the host's."""
    line = LINE if request.param == "own seal" else LINE[:2]
    return Attack(tmp_path / "genuine", invent_on(tmp_path / "genuine", tmp_path, *line), tmp_path)


@pytest.fixture
def database(postgres: PostgresServer, tmp_path: Path) -> Database:
    return Database(postgres, tmp_path)


def is_sealed(attack: Attack) -> bool:
    return attack.state.running.manifest == EXPECTED


def copied(*words: str) -> None:
    done = run("store", "copy", *words)
    assert done.code == 0, done.err


def test_a_copy_to_a_database_carries_no_invented_state_into_service(
    attack: Attack, database: Database
) -> None:
    data = attack.invented("invented", sealed=is_sealed(attack))
    copied(str(data), database.url, *database.password)
    attack.require_refused(data, *database.serving, reason=OTHER_ROOT)


def test_a_copy_from_a_database_carries_no_invented_state_into_service(
    attack: Attack, database: Database
) -> None:
    """The target is a directory whose ``sealed_key`` is genuine, as the command demands."""
    data, key = attack.genuine, attack.genuine / "sealed_key"
    copied(str(data), database.url, *database.password)
    sealed = key.read_bytes()
    begin_invented_epoch(database.secret, attack.state)
    copied(database.url, str(data), *database.password)
    if is_sealed(attack):
        assert key.read_bytes() == sealed
    else:
        key.unlink()
    attack.require_refused(data)


def test_a_backup_carries_no_invented_state_into_service(attack: Attack) -> None:
    data, backup = attack.folder / "restored", attack.folder / "backup"
    invented = attack.invented("invented", sealed=is_sealed(attack))
    made = run("backup", str(invented), str(backup))
    assert made.code == 0, made.err
    restored = run("restore", str(backup), str(data))
    assert restored.code == 0, restored.err
    shutil.copytree(attack.genuine / "simulation", data / "simulation")
    attack.require_refused(data)


def test_an_archived_store_carries_no_invented_state_into_service(attack: Attack) -> None:
    data, archived = attack.genuine, attack.genuine / "archive" / "20261124T000000Z-00000000"
    invented = attack.invented("invented", sealed=is_sealed(attack))
    archived.mkdir(mode=0o700, parents=True)
    archived.parent.chmod(0o700)
    for name in ("journal.db", "recovery_index", "sealed_key"):
        if (invented / name).exists():
            (invented / name).rename(archived / name)
    shutil.copytree(invented / "log", data / "log", dirs_exist_ok=True)
    restored = run("store", "restore", str(data), archived.name)
    assert restored.code == 0, restored.err
    attack.require_refused(data)


def test_a_lost_state_is_replaced_by_the_claimed_manifest_under_a_new_root(
    attack: Attack, database: Database
) -> None:
    """Nothing of the invented state stays: neither its root, nor its manifests."""
    attack.state.write_database(database.secret)
    data = attack.folder / "victim"
    data.mkdir(mode=0o700)
    shutil.copytree(attack.genuine / "simulation", data / "simulation")
    victim = Server(data, arguments=(*CLAIM, "--replace-lost-state", *database.serving))
    victim.start()
    try:
        with victim.client() as client:
            refused = client.set_manifest(recoverable([HOST]))
            assert (refused.status, CLAIM[1] in refused.body.decode()) == (403, True)
            assert client.set_manifest(EXPECTED).status == 200
            line = client.get("/api/v2/line?nonce=" + "A" * 22).data["entries"]
        assert len(line) == 1
        assert not accepts(victim, EXPECTED, attack.state.root_der)
        assert victim.stop() == 0
        assert is_served(victim)  # by its own seal
        assert not accepts(victim, EXPECTED, attack.state.root_der)
    finally:
        end(victim)
