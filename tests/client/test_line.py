"""The line of the root: clients compare who began the deployment, and continue what they saw."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.lines import line_of
from support.peers.peer import Peer, Reply, serving, success
from support.peers.sdk import MODES, Mode, connected, trust_in_peer

from keyhouse.client import (
    Address,
    CheckName,
    ClientSetupError,
    Coordinator,
    FileMemory,
    Memories,
    MemoryUnusableError,
    TrustedCoordinator,
    TrustError,
    forgotten,
)
from keyhouse.client.memory.lines import SeenLine

FIRST, SECOND, THIRD = b"{}", b'{"second": 1}', b'{"third": 1}'
STATE = f"1.9.{'0' * 16}"


def hex_of(manifest: bytes) -> str:
    return hashlib.sha256(manifest).hexdigest()


class Deployment:
    """A peer under whose root manifests were in force, and who looks at it."""

    def __init__(self, peer: Peer, address: Address, memory: FileMemory) -> None:
        self.peer, self.address, self.memory = peer, address, memory
        self.remembers = True

    def had(self, *manifests: bytes, adopted: bool = False) -> None:
        self.peer.line = line_of(self.peer.root.der, *manifests, adopted=adopted)

    def trusted(self, mode: Mode = "blocking", **rules: Any) -> TrustedCoordinator:
        trust = replace(trust_in_peer(self.peer), **rules)
        memory = self.memory if self.remembers else None
        with connected(mode, self.address, trust, memory=memory) as session:
            found = session._session.trusted if mode == "asyncio" else session.trusted
        assert isinstance(found, TrustedCoordinator)
        return found


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """Serve a line of one manifest."""
    peer = Peer.new()
    peer.extra_headers = {"Keyhouse-State": STATE}
    with serving(peer, tmp_path) as address:
        found = Deployment(peer, address, FileMemory(tmp_path / "known.json"))
        found.had(FIRST)
        yield found


def done(found: TrustedCoordinator) -> dict[str, bool]:
    return {each.name: each.done for each in found.checks}


def text_of(found: TrustedCoordinator, name: CheckName) -> str:
    check = found.check(name)
    assert check is not None
    return check.text


@pytest.mark.parametrize("mode", MODES)
def test_the_line_is_proven_and_each_check_says_whether_it_was_made(
    deployment: Deployment, mode: Mode
) -> None:
    first = deployment.trusted(mode)
    assert first.line is not None
    assert first.line.manifests == (hex_of(FIRST),)
    assert done(first) == {
        "code": True,
        "line": True,
        "origin": True,
        "first-manifest": False,
        "manifests": False,
        "memory": False,
        "witnesses": False,
    }
    assert "no first manifest is" in text_of(first, CheckName.FIRST_MANIFEST)
    again = deployment.trusted(mode)
    assert done(again)["first-manifest"]
    assert done(again)["memory"]
    assert "the remembered manifest" in text_of(again, CheckName.FIRST_MANIFEST)


@pytest.mark.parametrize("expected", [FIRST, hex_of(FIRST), hex_of(FIRST).upper()])
def test_the_expected_first_manifest_is_compared(
    deployment: Deployment, expected: bytes | str
) -> None:
    deployment.had(FIRST, SECOND)
    found = deployment.trusted(first_manifest=expected)
    assert done(found)["first-manifest"]
    assert not done(found)["manifests"]
    with pytest.raises(TrustError, match=f"{hex_of(FIRST)}.*{hex_of(SECOND)}"):
        deployment.trusted(first_manifest=SECOND)


def test_no_manifest_may_have_been_in_force_that_is_neither_named_nor_accepted(
    deployment: Deployment,
) -> None:
    rules: dict[str, Any] = {"first_manifest": FIRST, "manifests": "all"}
    assert done(deployment.trusted(**rules))["manifests"]
    deployment.had(FIRST, SECOND, THIRD)
    with pytest.raises(TrustError, match=f"{hex_of(SECOND)}.*keyhouse trust accept"):
        deployment.trusted(**rules)
    with pytest.raises(TrustError, match=f"{hex_of(THIRD)}.*keyhouse trust accept"):
        deployment.trusted(**rules, accepted_manifests=(SECOND,))
    assert done(deployment.trusted(**rules, accepted_manifests=(hex_of(SECOND), THIRD)))
    with pytest.raises(TrustError, match=f"{hex_of(FIRST)}.*keyhouse trust accept"):
        deployment.trusted(manifests="all")


@pytest.mark.parametrize(
    "wrong",
    [
        {"first_manifest": "ab"},
        {"manifests": "some"},
        {"accepted_manifests": (FIRST,)},
        {"manifests": "all", "accepted_manifests": ("x" * 64,)},
    ],
)
def test_rules_that_compare_nothing_are_refused(
    deployment: Deployment, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ClientSetupError):
        deployment.trusted(**wrong)
    assert deployment.peer.requests == []


def test_a_root_that_is_older_than_the_line_has_no_first_manifest(deployment: Deployment) -> None:
    deployment.had(FIRST, adopted=True)
    assert not done(deployment.trusted())["origin"]
    for rules in ({"first_manifest": FIRST}, {"manifests": "all", "accepted_manifests": (FIRST,)}):
        with pytest.raises(TrustError, match="older than its line"):
            deployment.trusted(**rules)


@pytest.mark.parametrize(
    ("later", "problem"),
    [((FIRST,), "rollback"), ((FIRST, THIRD), "fork"), ((SECOND, FIRST), "began with")],
    ids=["shorter", "other", "other first"],
)
def test_a_line_that_does_not_continue_the_remembered_one_is_refused(
    deployment: Deployment, later: tuple[bytes, ...], problem: str
) -> None:
    deployment.had(FIRST, SECOND)
    deployment.trusted()
    deployment.had(*later)
    with pytest.raises(TrustError, match=problem):
        deployment.trusted()
    deployment.remembers = False
    deployment.trusted()


def test_a_line_that_grows_is_remembered(deployment: Deployment) -> None:
    deployment.trusted()
    deployment.had(FIRST, SECOND, THIRD)
    found = deployment.trusted()
    assert found.line_before == 2
    [seen] = deployment.memory.read().lines.values()
    assert found.line is not None
    assert seen == SeenLine(hex_of(FIRST), 4, found.line.last_hash.hex())
    assert b'"version": 3' in deployment.memory.path.read_bytes()


_NOT_BEGUN = (409, b'{"status":"error","data":null,"message":"it has not begun"}\n')


@pytest.mark.parametrize("reply", [None, _NOT_BEGUN], ids=["older version", "older root"])
def test_a_coordinator_that_serves_no_line_is_refused_only_where_one_is_needed(
    deployment: Deployment, reply: Reply | None
) -> None:
    line, deployment.peer.line = deployment.peer.line, ()
    if reply is not None:
        deployment.peer.replies["GET", "/api/v2/line"] = reply
    found = deployment.trusted()
    assert found.line is None
    assert [name for name, is_done in done(found).items() if is_done] == ["code"]
    assert "serves no line" in text_of(found, CheckName.LINE)
    with pytest.raises(TrustError, match="cannot be compared"):
        deployment.trusted(first_manifest=FIRST)
    deployment.peer.line = line
    deployment.peer.replies.clear()
    deployment.trusted()
    deployment.peer.line = ()
    if reply is not None:
        deployment.peer.replies["GET", "/api/v2/line"] = reply
    with pytest.raises(TrustError, match="cannot be compared"):
        deployment.trusted()


def test_without_a_manifest_the_first_one_can_be_set_and_nothing_secret_asked(
    deployment: Deployment,
) -> None:
    deployment.peer.extra_headers, deployment.peer.line = {}, ()
    trust = replace(trust_in_peer(deployment.peer), first_manifest=FIRST)
    deployment.peer.replies["GET", "/api/v2/status"] = success({"code": 2, "message": ""})
    with Coordinator.connect(deployment.address, trust) as session:
        assert session.status().code == 2
        with pytest.raises(TrustError, match="no first manifest"):
            session.secrets(["any"])


def _nonce(peer: Peer) -> None:
    peer.replies["GET", "/api/v2/line"] = peer.line_reply(b"another nonce, of an older answer")


def _other_root(peer: Peer) -> None:
    peer.line = line_of(b"another root", FIRST)


def _broken(peer: Peer) -> None:
    peer.line = (peer.line[0], peer.line[0])


@pytest.mark.parametrize("bend", [_nonce, _other_root, _broken])
def test_a_line_that_no_quote_proves_is_refused(
    deployment: Deployment, bend: Callable[[Peer], None]
) -> None:
    bend(deployment.peer)
    with pytest.raises(TrustError, match="line"):
        deployment.trusted()
    assert deployment.memory.read().lines == {}


def test_forgetting_a_deployment_forgets_its_line(deployment: Deployment) -> None:
    deployment.trusted()
    memories = deployment.memory.read()
    assert len(memories.lines) == 1
    assert forgotten(memories, deployment.address) == Memories()


@pytest.mark.parametrize(
    "damage",
    [
        SeenLine("ab", 1, "cd" * 32),
        SeenLine("ab" * 32, 1, ""),
        SeenLine("ab" * 32, 0, "cd" * 32),
        SeenLine("ab" * 32, -1, "cd" * 32),
        SeenLine("ab" * 32, 5000, "cd" * 32),
        SeenLine("ab" * 32, 2, "cd" * 32, accepted=3),
    ],
)
def test_a_line_in_a_memory_that_cannot_be_is_refused(
    deployment: Deployment, damage: SeenLine
) -> None:
    deployment.trusted()
    [root] = deployment.memory.read().lines
    deployment.memory.change(lambda memories: replace(memories, lines={root: damage}))
    with pytest.raises(MemoryUnusableError, match="damaged"):
        FileMemory(deployment.memory.path).read()


def test_a_session_proves_the_line_again(deployment: Deployment) -> None:
    trust = replace(trust_in_peer(deployment.peer), first_manifest=FIRST)
    with Coordinator.connect(deployment.address, trust, memory=deployment.memory) as session:
        deployment.had(FIRST, SECOND)
        found = session.attest(trust)
        assert found.line is not None
        assert found.line.manifests == (hex_of(FIRST), hex_of(SECOND))
        assert done(found)["memory"]
        deployment.had(FIRST, THIRD)
        with pytest.raises(TrustError, match="fork"):
            session.attest(trust)
        deployment.had(SECOND)
        with pytest.raises(TrustError, match=f"{hex_of(SECOND)}.*{hex_of(FIRST)}"):
            session.attest(trust)
