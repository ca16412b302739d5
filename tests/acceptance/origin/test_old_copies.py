"""An old copy of a state, which the host rewrites: it has learned the data key since."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.host.client import is_served
from support.host.copies import DatabaseCopy, append_events, begin_invented_epoch, state_in
from support.host.enclave import ADMITTED, HOST_CODE, HostEnclave, code_of_quotes
from support.host.invented_state import with_manifest
from support.peers.postgres import PostgresServer
from support.peers.replicas import Replicas
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import Api, together

from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.events import UpdateInitiated
from keyhouse.coordinator.core.state import Pending
from keyhouse.manifest import fingerprint
from keyhouse_simulation import COORDINATOR

pytestmark = pytest.mark.acceptance

USERS = ("alice", "bob")
OWN_CODE = {"UniqueID": COORDINATOR.unique_id.hex()}


def agreed(word: str, *code: dict[str, str]) -> bytes:
    """Return a manifest that both users have to agree to change; it admits ``code``."""
    return together(updaters=USERS, word=word, SealMode="UniqueKey", Replicas={"Code": code})


TRUE = agreed("true", OWN_CODE)
ADMITTING = agreed("admits the host", OWN_CODE, ADMITTED)
NEXT = agreed("next", OWN_CODE)


class OldCopy(NamedTuple):
    """A copy from before users admitted other code by mistake. The host has its data key since."""

    enclave: HostEnclave
    genuine: Server  # does not run
    url: Secret
    store_id: bytes
    dek: Secret

    def is_served(self, manifest: bytes) -> bool:
        """Tell whether the coordinator that runs enforces ``manifest``."""
        with self.genuine.client() as client:
            found = client.get("/api/v2/manifest").data["manifestFingerprint"]
        return bool(found == fingerprint(manifest))


@pytest.fixture(name="copy")
def _copy(postgres: PostgresServer, tmp_path: Path) -> Iterator[OldCopy]:
    name = asyncio.run(postgres.database())
    replicas = Replicas(tmp_path, postgres.url(name))
    try:
        (genuine,) = replicas.founded(1, TRUE)
        genuine.stop()
        old = DatabaseCopy(postgres, name, genuine)
        genuine.start()
        with genuine.client(user("alice")) as alice, genuine.client(user("bob")) as bob:
            assert Api(2).update(alice, ADMITTING).status == 200
            assert Api(2).acknowledge(bob, ADMITTING).status == 200
        enclave = HostEnclave(tmp_path / "enclave", genuine.data / "simulation")
        store_id, dek = enclave.take(postgres.url(name))
        genuine.kill()
        old.put_back()
        yield OldCopy(enclave, genuine, postgres.url(name), store_id, dek)
    finally:
        replicas.end()


def test_a_vote_that_the_host_forged_completes_no_update(copy: OldCopy) -> None:
    """Bob is the host's."""
    forged = Pending(manifest=NEXT, users=USERS, needed=2, acknowledged=("alice",))
    proposal = UpdateInitiated(time=time.time_ns() // 1000, user="alice", pending=forged)
    append_events(copy.url, copy.store_id, copy.dek, [proposal])
    copy.genuine.start()
    with copy.genuine.client(user("bob")) as bob:
        refused = Api(2).acknowledge(bob, NEXT)
    assert refused.status == 404
    assert copy.is_served(TRUE)


def test_a_manifest_that_only_the_host_s_enclave_vouches_for_is_refused(copy: OldCopy) -> None:
    """The line would hide the manifest that admits the enclave, whose quote is true."""
    state = state_in(copy.url, copy.store_id, copy.dek)
    state = with_manifest(state, NEXT, code_of_quotes(HOST_CODE), copy.enclave.platform.quote)
    begin_invented_epoch(copy.url, state)
    assert not is_served(copy.genuine)
    logged = copy.genuine.logged()
    assert "which neither --predecessors nor an earlier manifest accepts" in logged
