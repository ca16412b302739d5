"""A sealed data key, and an epoch that the host invented behind the place that was sealed.

The host has the data key: the only recovery key is its own, so the share is the data key.
"""

import os
import shutil
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificates
from msgspec.structs import replace
from support.host.client import accepts, end, is_served
from support.host.copies import begin_invented_epoch
from support.host.invented_state import InventedState, invent
from support.peers.replicas import Replicas, with_replicas
from support.process.server import Server
from support.process.strace import killed_before_renaming
from support.samples.deployment import user
from support.samples.recovery import ciphertexts_of, holder, recoverable
from support.samples.updates import Api

from keyhouse.base.secret import Secret
from keyhouse.coordinator.engine.records import rebuild
from keyhouse.journal.directory.disk import NEXT_INDEX, SEALED_KEY
from keyhouse.journal.directory.sealing import parse
from keyhouse.journal.store.protocol import CHAIN_SIZE, Position

pytestmark = pytest.mark.acceptance

HOST = holder("the host's")
EXPECTED = with_replicas("the manifest that clients expect")


def test_a_sealed_key_of_two_epochs_opens_no_epoch_that_the_host_invented(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Server(data) as server, server.client() as client:
        shares = ciphertexts_of(client.set_manifest(recoverable([HOST])))
        genuine = client.get("/api/v2/status").headers["keyhouse-state"]
    dek = Secret(HOST.share(shares[HOST.name]))
    wrapper = killed_before_renaming(data / NEXT_INDEX, tmp_path / "trace")
    with (
        Server(data, wrapper=wrapper) as server,
        server.client(user("admin")) as admin,
        suppress(OSError, HTTPException),  # it is killed
    ):
        Api(2).update(admin, recoverable([HOST], secrets=4))
    both = (data / SEALED_KEY).read_bytes()

    machine, invented = data / "simulation", tmp_path / "invented"
    state = invent(EXPECTED, dek=dek, store_id=parse(both).store_id)
    sequence = int(genuine.split(".")[1]) + 1000
    place = Position(1, sequence, os.urandom(CHAIN_SIZE))
    state.write_directory(invented, after=place, sealed_key=both)
    shutil.copytree(machine, invented / "simulation")
    victim = Server(invented)
    try:
        assert not (is_served(victim) and accepts(victim, EXPECTED, state.root_der))
    finally:
        end(victim)


class Shared(NamedTuple):
    """A state in a database, whose data key the host has, and what it invented in its place."""

    server: Server
    url: Secret
    state: InventedState

    def replace(self) -> None:
        """Let the invented state be the next epoch of the journal."""
        begin_invented_epoch(self.url, self.state)


@pytest.fixture(name="shared", params=["another manifest", "the line of the genuine root"])
def _shared(replicas: Replicas, request: pytest.FixtureRequest) -> Shared:
    assert replicas.url is not None
    server = replicas.started()
    with server.client() as client:
        shares = ciphertexts_of(client.set_manifest(recoverable([HOST])))
    dek, opened = Secret(HOST.share(shares[HOST.name])), replicas.opened()
    state = invent(EXPECTED, dek=dek, store_id=opened.journal.store_id)
    if request.param != "another manifest":  # only the root is the host's
        genuine, _ = rebuild(opened.replay.base + opened.replay.events)
        state = invent(genuine.manifest, dek=dek, store_id=opened.journal.store_id)
        state = state._replace(running=replace(state.running, line=genuine.line))
    return Shared(server, replicas.url, state)


def test_a_sealed_key_in_a_database_opens_no_epoch_that_the_host_invented(shared: Shared) -> None:
    """No copy of a seal is needed: any replica may have begun the next epoch of a shared state."""
    server, _, state = shared
    server.stop()
    shared.replace()
    assert not (is_served(server) and accepts(server, EXPECTED, state.root_der))


def test_a_coordinator_that_runs_follows_no_epoch_that_the_host_invented(shared: Shared) -> None:
    """The host relays the quote over its root from an address of its own."""
    server, _, state = shared
    shared.replace()
    with suppress(OSError, HTTPException), server.client(user("admin")) as admin:
        Api(2).update(admin, recoverable([HOST], secrets=4))  # it looks at its database
        quoted = admin.get("/api/v2/quote").data["cert"].encode()
        assert load_pem_x509_certificates(quoted)[-1].public_bytes(Encoding.DER) != state.root_der
