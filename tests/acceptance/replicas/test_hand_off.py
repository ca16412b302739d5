"""Coordinators on different machines: real processes that hand the data key to each other."""

import asyncio
import base64
import os

import pytest
from support.peers.postgres import PostgresServer
from support.peers.replicas import (
    Load,
    Replicas,
    awaited,
    code_of,
    manifest,
    propose,
    update,
    with_replicas,
)
from support.process.command import run
from support.process.server import PATIENCE
from support.samples.deployment import user
from support.samples.machines import OTHER_CODE
from support.samples.recovery import ciphertexts_of, hand_in, holder, recoverable

from keyhouse.coordinator.engine.records import rebuild
from keyhouse.journal import Journal, WrongKeyError
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse_simulation import COORDINATOR

VM = TdxIdentity(mrtd="ab" * 48)
OWN_CODE = {"UniqueID": COORDINATOR.unique_id.hex()}
OTHER_PACKAGE = {"UniqueID": OTHER_CODE.unique_id.hex()}


def test_other_machines_join_and_live_through_a_new_data_key(
    replicas: Replicas, postgres: PostgresServer
) -> None:
    (first,) = replicas.founded(1, with_replicas())
    keys = [replicas.opened().journal.dek]
    others = [replicas.elsewhere().start(), replicas.elsewhere().start()]
    everyone = [first, *others]
    assert [code_of(server) for server in everyone] == [3, 3, 3]
    with Load(everyone).running() as load:
        load.progress()
        update(others[0], with_replicas("second", holders=2))
        load.progress()
        update(others[1], with_replicas("third", holders=3))
        load.progress()
    for server in everyone:
        assert server.process is not None
        assert server.process.poll() is None
        assert code_of(server) == 3
    first.kill()
    for server in others:  # each has sealed the newest key on its own machine
        server.kill()
        server.start()
        assert code_of(server) == 3
    first.start()
    with first.client(user("writer")) as client:
        for name, values in load.acknowledged.items():
            assert client.secrets([name])[name] in {values[-1], *load.unknown}
        canary = os.urandom(32)
        assert client.upload({"note": canary}).status == 200
    opened = replicas.opened()
    keys.append(opened.journal.dek)
    assert keys[0] != keys[1]
    root_key = rebuild(opened.replay.base + opened.replay.events)[0].keys.root_key.reveal()
    assert [server.stop() for server in everyone] == [0, 0, 0]
    hidden = [*(key.reveal() for key in keys), canary, root_key[36:68]]  # of PKCS #8: the number
    shown = [
        form
        for raw in hidden
        for form in (raw, raw.hex().encode(), base64.b64encode(raw)[:40], repr(raw)[2:-1].encode())
    ]
    # All tables, the write-ahead log and the log of the server, and what the coordinators logged.
    seen = [path for path in postgres.folder.rglob("*") if path.is_file()]
    assert any("pg_wal" in path.parts for path in seen)
    assert postgres.folder / "log" in seen
    for path in (*seen, *(server.log for server in everyone)):
        content = path.read_bytes()
        assert not any(form in content for form in shown), path


def test_without_the_section_nothing_is_handed_over(replicas: Replicas) -> None:
    (first,) = replicas.founded(1, manifest())
    other = replicas.elsewhere()
    other.launch()
    awaited("not-configured", first)
    awaited("asking the coordinators that serve for the data key", replicas.all[-1])
    assert "serving the Client API" not in other.logged()
    assert code_of(first) == 3


def test_code_that_was_dropped_is_given_nothing_and_its_own_key_opens_nothing(
    replicas: Replicas,
) -> None:
    (first,) = replicas.founded(1, with_replicas(Code=[OWN_CODE, OTHER_PACKAGE]))
    old = replicas.elsewhere(coordinator=OTHER_CODE).start()
    kept = replicas.elsewhere().start()
    assert (code_of(old), code_of(kept)) == (3, 3)
    update(first, with_replicas("second", Code=[OWN_CODE]))
    assert old.process is not None
    assert old.process.wait(PATIENCE) == 3  # to be started again
    assert code_of(kept) == 3
    old.launch()
    awaited("note was refused", first, kept)
    assert "the manifest does not admit the code" in first.logged() + kept.logged()
    assert old.logged().count("serving the Client API") == 1


def test_an_upgrade_that_users_agree_to_locks_the_old_code_out(replicas: Replicas) -> None:
    """Old code serves; an update admits new code, which joins; another one drops the old code."""
    (old,) = replicas.founded(1, with_replicas(Code=[OWN_CODE]))
    new = replicas.elsewhere(coordinator=OTHER_CODE)
    new.launch()
    awaited("the manifest does not admit the code", old)
    assert "serving the Client API" not in new.logged()
    new.kill()
    update(old, with_replicas("second", Code=[OWN_CODE, OTHER_PACKAGE]))
    new.start()
    assert (code_of(old), code_of(new)) == (3, 3)
    before = replicas.opened()

    last = with_replicas("third", Code=[OTHER_PACKAGE])
    refused = propose(old, last)  # it would make the new key, and know it
    assert refused.status == 409
    assert "does not admit this coordinator" in str(refused.body)
    update(new, last)
    with new.client(user("writer")) as client:
        assert client.upload({"note": b"after the upgrade"}).status == 200
    assert old.process is not None
    assert old.process.wait(PATIENCE) == 3

    async def read_by_the_old() -> None:
        assert replicas.url is not None
        store = await PostgresStore.open(replicas.url, before.journal.store_id)
        try:
            with pytest.raises(WrongKeyError):
                await Journal.open(store, store_id=store_id, dek=before.journal.dek)
        finally:
            await store.close()

    store_id = before.journal.store_id
    asyncio.run(read_by_the_old())
    old.launch()  # a downgrade: what it has sealed opens nothing, and it is given nothing
    awaited("the manifest does not admit the code", new)
    assert old.logged().count("serving the Client API") == 1
    assert code_of(new) == 3


def test_other_measured_settings_are_given_nothing(replicas: Replicas) -> None:
    (first,) = replicas.founded(1, with_replicas())
    other = replicas.elsewhere("--no-cancel-by-removed")
    other.launch()
    awaited("other-settings", first)
    assert "serving the Client API" not in other.logged()


def test_who_recovers_the_state_hands_the_key_to_those_that_wait(replicas: Replicas) -> None:
    keys = [holder("rk0")]
    config = {"SealMode": "UniqueKey", "Replicas": {}}
    first = replicas.started()
    with first.client() as client:
        shares = ciphertexts_of(client.set_manifest(recoverable(keys, Config=config)))
    first.kill()
    desk, waiting = replicas.elsewhere().start(), replicas.elsewhere()
    assert code_of(desk) == 1  # nobody serves
    waiting.launch()
    awaited("another coordinator recovers it", waiting)
    share = keys[0].share(shares["rk0"])
    with desk.client() as client:
        assert hand_in(client, share, keys[0].sign(share)).data["remaining"] == 0
    assert waiting.process is not None
    waiting._wait(waiting.process)
    assert (code_of(desk), code_of(waiting)) == (3, 3)


def test_recovery_mode_ends_when_another_coordinator_serves(replicas: Replicas) -> None:
    (first,) = replicas.founded(1, with_replicas(holders=1))
    first.kill()
    desk = replicas.elsewhere().start()
    assert code_of(desk) == 1  # nobody serves
    first.start()
    assert desk.process is not None
    assert desk.process.wait(PATIENCE) == 3  # to be started again
    assert "offers the data key" in desk.logged()
    desk.start()
    assert (code_of(first), code_of(desk)) == (3, 3)


def test_a_platform_that_cannot_seal_serves_with_a_key_of_others(replicas: Replicas) -> None:
    code = [OWN_CODE, {"TDX": {"MRTD": VM.mrtd}}]
    (first,) = replicas.founded(1, with_replicas(Code=code))
    refused = replicas.elsewhere(coordinator=VM)
    refused.launch()  # an enclave has made the root: a VM accepts that only if a setting says so
    awaited("which --predecessors does not accept", refused)
    refused.kill()
    predecessors = f"own,UniqueID:{COORDINATOR.unique_id.hex()}"
    vm = replicas.elsewhere("--predecessors", predecessors, coordinator=VM).start()
    assert code_of(vm) == 3
    assert "this platform cannot seal" in vm.logged()
    assert not (vm.data / "sealed_key").exists()
    machine = vm.data / "simulation"
    words = ["status", f"127.0.0.1:{vm.port}", "--simulation-root", str(machine / "root.pem")]
    words += ["--attestation", str(machine / "attestation.json")]
    words += ["--collateral", str(machine / "collateral-tdx.json")]
    verified = run(*words)
    assert verified.code == 0, verified
    with vm.client(user("writer")) as client:
        assert client.upload({"note": b"written by a confidential VM"}).status == 200
    update(first, with_replicas("second", holders=1, Code=code))  # it is told of the new key
    assert code_of(vm) == 3
    vm.kill()
    vm.start()  # it asks again
    first.kill()
    first.start()
    assert code_of(first) == 3
    first.kill()
    vm.kill()
    vm.start()  # nobody is there to ask
    assert code_of(vm) == 1
