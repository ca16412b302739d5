"""An old copy of a state, which the host shows or rewrites: it has learned the data key since."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cosigner import Cosigner
from support.host.client import is_served
from support.host.copies import append_events, begin_invented_epoch, state_in
from support.host.enclave import HOST_CODE, code_of_quotes
from support.host.invented_state import with_manifest
from support.host.old_copies import USERS, OldCopy, agreed, agreed_with_host, old_copy
from support.peers.postgres import PostgresServer
from support.peers.witness import Witness, policy
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import Api
from support.witnessed import until_held, until_served

from keyhouse.client import LogPolicy, TrustError
from keyhouse.coordinator.core.events import UpdateInitiated
from keyhouse.coordinator.core.state import PendingUpdate
from keyhouse.transparency.policy import CosignaturePolicy

pytestmark = pytest.mark.acceptance

TRUE, NEXT = agreed("true"), agreed("next")


@pytest.fixture(name="copy")
def _copy(postgres: PostgresServer, tmp_path: Path) -> Iterator[OldCopy]:
    with old_copy(postgres, tmp_path, TRUE, agreed_with_host()) as found:
        yield found


def test_a_vote_that_the_host_forged_completes_no_update(copy: OldCopy) -> None:
    """Bob is the host's."""
    forged = PendingUpdate(manifest=NEXT, users=USERS, needed=2, acknowledged=("alice",))
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


def test_an_old_copy_shows_nothing_of_the_mistake_and_only_a_memory_notices(copy: OldCopy) -> None:
    """As stated: each quote and each entry of its line is true."""
    copy.genuine.start()
    found = copy.verified()
    assert copy.host_has_key_of(found.root_der)
    with pytest.raises(TrustError, match="rollback"):
        copy.verified(copy.memory)


def test_witnesses_notice_an_old_copy_and_the_line_alone_does_not(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """As stated: it serves nothing secret, and no witness cosigns it."""
    with Witness(Cosigner.ed25519("a.example/w")) as witness:

        def settle(server: Server) -> None:
            with server.client() as client:
                witness.trust(client.get("/api/v2/log/key").data["verifierKey"])
            until_served(server)

        words = policy([witness], 1)
        rules = {"Transparency": {"Witnesses": words, "Serve": "Witnessed"}}
        true, mistake = agreed("true", **rules), agreed_with_host(**rules)
        with old_copy(postgres, tmp_path, true, mistake, settle) as copy:
            copy.genuine.start()
            until_held(copy.genuine, "")
            assert copy.host_has_key_of(copy.verified().root_der)
            with pytest.raises(TrustError, match="no quorum"):
                copy.verified(log_policy=LogPolicy(CosignaturePolicy.read(words)))
            with copy.genuine.client(user("writer")) as writer:
                assert writer.upload({"note": b"for the host"}).status == 503
