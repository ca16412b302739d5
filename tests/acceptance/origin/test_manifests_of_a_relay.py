"""A host that knows the root key relays the line, and answers another manifest than the last one.

It knows the key, since the manifest in force has one holder, who is the host's. The line has a
quote of genuine code over a fresh nonce. The manifest has the signature of the root alone.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.host.relay import relaying
from support.peers.replicas import Replicas
from support.peers.sdk import MODES, Mode, connected, trust_in_server
from support.process.server import Server
from support.samples.deployment import user
from support.samples.recovery import holder, recoverable
from support.samples.updates import Api

from keyhouse.authority.keys import CoordinatorKeys
from keyhouse.client import FileMemory, TrustError
from keyhouse.coordinator.engine.records import rebuild
from keyhouse.manifest import fingerprint

pytestmark = pytest.mark.acceptance

TRUE, NEXT = (recoverable([holder("the host's")], secrets=count) for count in (3, 4))
FALSE = recoverable([holder("good")])


def _learned(replicas: Replicas) -> CoordinatorKeys:
    """Return the keys in the journal, which the data key opens."""
    replay = replicas.opened().replay
    return rebuild((*replay.base, *replay.events))[0].keys


def _updated(server: Server, manifest: bytes) -> None:
    with server.client(user("admin")) as admin:
        assert Api(2).update(admin, manifest).status == 200


@pytest.mark.parametrize("hides_state", [False, True], ids=["", "no state"])
@pytest.mark.parametrize("mode", MODES)
def test_a_manifest_that_is_not_the_last_in_the_line_is_refused(
    replicas: Replicas,
    tmp_path: Path,
    mode: Mode,
    hides_state: bool,  # noqa: FBT001 - a case of the test
) -> None:
    (server,) = replicas.founded(1, TRUE)
    trust = trust_in_server(server)
    with ExitStack() as stack:
        relay, address = stack.enter_context(relaying(server, _learned(replicas), tmp_path))
        relay.hides_state = hides_state
        session = stack.enter_context(connected(mode, address, trust))
        assert session.manifest().manifest == TRUE
        asked = len(relay.relayed)
        assert session.verify_manifest(TRUE).manifest == TRUE
        assert len(relay.relayed) == asked + 1  # the line was not read again
        relay.says(FALSE)
        with pytest.raises(TrustError, match=fingerprint(FALSE)):
            session.verify_manifest(FALSE)
        _updated(server, NEXT)
        with pytest.raises(TrustError, match=fingerprint(FALSE)):
            session.manifest()
        del relay.replies["GET", "/api/v2/manifest"]
        assert session.manifest().manifest == NEXT
        relay.says(TRUE)  # it was in force before, and is not any more
        with pytest.raises(TrustError, match=fingerprint(TRUE)):
            session.manifest()


def test_an_update_during_a_session_is_judged_by_the_rules_of_its_trust(
    replicas: Replicas, tmp_path: Path
) -> None:
    (server,) = replicas.founded(1, TRUE)
    memory, address = FileMemory(tmp_path / "known.json"), f"127.0.0.1:{server.port}"
    trust = replace(trust_in_server(server), first_manifest=TRUE)
    strict = replace(trust, manifests="all")
    with (
        connected("blocking", address, trust, memory=memory) as session,
        connected("blocking", address, strict) as judging,
    ):
        _updated(server, NEXT)
        assert session.manifest().manifest == NEXT
        assert session.trusted.line.manifests == (fingerprint(TRUE), fingerprint(NEXT))
        with pytest.raises(TrustError, match=fingerprint(NEXT)):
            judging.manifest()
