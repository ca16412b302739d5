"""The transparency log continues what a client has seen of it, or the coordinator is refused."""

import base64
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.peers.peer import Peer, serving, success

from keyhouse.base.secret import Secret
from keyhouse.client import (
    Address,
    ClientSetupError,
    Coordinator,
    FileMemory,
    LogPolicy,
    Memories,
    MemoryUnusableError,
    Place,
    SecretUpload,
    Trust,
    TrustError,
    verify_coordinator,
)
from keyhouse.client.memory.states import MOST_HEADS, ProvenHead, read_head, with_head, with_proven
from keyhouse.journal.log_store import Growing
from keyhouse.transparency.keys import COSIGNED, ED25519, VerifierKey, signature_of
from keyhouse.transparency.note import Checkpoint, NoteSignature, SignedNote
from keyhouse.transparency.tiles import Tile
from keyhouse.wire.headers import LogHead

HERE = Address("keys.example", 4433)
STATUS = success({"code": 3, "message": "running"})


class Witness:
    """A witness that signs whatever it is shown, at any time."""

    def __init__(self, name: str) -> None:
        self._key = Ed25519PrivateKey.generate()
        self.key = VerifierKey(name, COSIGNED, self._key.public_key().public_bytes_raw())

    def cosignature(self, text: bytes, time: int) -> NoteSignature:
        signed = self._key.sign(b"cosignature/v1\ntime %d\n%b" % (time, text))
        return NoteSignature(self.key.name, self.key.key_id, time.to_bytes(8, "big") + signed)


WITNESSES = [Witness(f"w{number}.example") for number in range(3)]


class Log(Peer):
    """A peer whose answers tell of a log, each of them one record later."""

    sequence = 1
    note: SignedNote
    cosigned = b""
    memory: FileMemory

    def begin(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.origin = "keyhouse/test"
        self.verifier = VerifierKey(self.origin, ED25519, self.key.public_key().public_bytes_raw())
        self.growing = Growing()
        self.sign_key(b"keyhouse log key v1\0" + str(self.verifier).encode())
        self.replies["GET", "/api/v2/status"] = STATUS
        self.grow(3)

    def sign_key(self, message: bytes) -> None:
        signature = self.root.key.sign(message, ec.ECDSA(hashes.SHA256()))
        data = {
            "origin": self.origin,
            "verifierKey": str(self.verifier),
            "signature": base64.b64encode(signature).decode(),
        }
        self.replies["GET", "/api/v2/log/key"] = success(data)

    def grow(self, leaves: int, what: str = "") -> None:
        size = self.growing.size
        self.growing.extend(b"%d %s" % (size + n, what.encode()) for n in range(leaves))
        self.sequence += leaves
        frontier = self.growing.frontier
        head = LogHead.of(frontier.size, frontier.root)
        self.extra_headers |= {
            "Keyhouse-State": f"1.{self.sequence}.{self.sequence:016x}",
            "Keyhouse-Log": str(head),
        }
        text = Checkpoint(self.origin, frontier.size, frontier.root).encode()
        self.note = SignedNote(text, (signature_of(self.key, self.verifier, text),))
        self.publish(self.note.encode())

    def cosign(self, *ages: int) -> None:
        """Let as many witnesses as there are ``ages`` have seen the log so many seconds ago."""
        lines = [
            witness.cosignature(self.note.text, int(datetime.now(UTC).timestamp()) - age)
            for witness, age in zip(WITNESSES, ages, strict=False)
        ]
        self.cosigned = SignedNote(self.note.text, (*self.note.signatures, *lines)).encode()

    def publish(self, note: bytes) -> None:
        self.replies["GET", "/api/v2/log/checkpoint"] = 200, note

    def reply(self, method: str, target: str) -> tuple[int, bytes]:
        tile = target.removeprefix("/api/v2/log/tile/")
        if target == "/api/v2/log/checkpoint" and self.cosigned:
            return 200, self.cosigned
        if tile != target:
            return 200, self.growing.read(Tile.read(tile)) or b""
        return super().reply(method, target)


@pytest.fixture(name="log")
def _log() -> Log:
    log = Log.new()
    assert isinstance(log, Log)
    log.begin()
    return log


@pytest.fixture(name="look")
def _look(log: Log, tmp_path: Path) -> Iterator["Look"]:
    memory = FileMemory(tmp_path / "known.json")
    with serving(log, tmp_path) as address:

        def look(policy: LogPolicy | None = None) -> Coordinator:
            return Coordinator(
                verify_coordinator(
                    address,
                    log_policy=policy,
                    expected=log.platform.expected_identity,
                    root_ca_der=log.platform.root_ca,
                    collateral=log.platform.collateral,
                    memory=memory,
                )
            )

        log.memory = memory
        yield look


def memory_of(log: Log) -> Memories:
    return log.memory.read()


def root_of(log: Log) -> str:
    return hashlib.sha256(log.root.der).hexdigest()


def head_of(log: Log) -> LogHead:
    frontier = log.growing.frontier
    return LogHead.of(frontier.size, frontier.root)


class Look(Protocol):
    """Connects to the log's peer, with the same memory each time."""

    def __call__(self, policy: LogPolicy | None = None) -> Coordinator: ...


def test_a_log_that_grows_is_proven_at_the_next_connection(log: Log, look: Look) -> None:
    look().close()
    first = head_of(log)
    with look() as coordinator:
        for leaves in (1, 40, 200):
            log.grow(leaves)
            coordinator.status()
    (places,) = memory_of(log).heads.values()
    assert len(places) == 4
    assert places[0] == first
    log.grow(700)
    look().close()
    assert memory_of(log).heads == {root_of(log): (head_of(log),)}


def test_a_log_that_grows_by_much_is_proven_within_a_session(log: Log, look: Look) -> None:
    with look() as coordinator:
        log.grow(256)
        coordinator.status()
        assert not any("/log/" in path for _, path, _ in log.requests)
        log.grow(1)
        coordinator.status()
        assert any("/log/checkpoint" in path for _, path, _ in log.requests)
        log.growing = Growing()
        log.grow(1000, "of a copy")
        with pytest.raises(TrustError, match=r"fork: .* 1000 .* 260"):
            coordinator.status()


def test_heads_that_are_proven_together_read_each_tile_once(log: Log, look: Look) -> None:
    with look() as coordinator:
        for _ in range(5):
            log.grow(20)
            coordinator.status()
    log.requests.clear()
    look().close()
    tiles = [path for _, path, _ in log.requests if "/log/tile/" in path]
    assert tiles == ["/api/v2/log/tile/0/000.p/103"]


def test_a_copy_that_has_overtaken_the_memory_is_refused(log: Log, look: Look) -> None:
    with look() as coordinator:
        log.grow(20)
        coordinator.status()
    log.growing = Growing()
    log.grow(3)
    log.grow(60, "of a copy")
    log.sequence += 1000
    log.grow(1, "of a copy")
    known = memory_of(log)
    with pytest.raises(TrustError, match=r"fork: .* 23") as refused:
        look()
    assert "keyhouse trust forget" in refused.value.hint
    assert memory_of(log) == known


def test_a_smaller_log_another_one_and_none_are_refused(log: Log, look: Look) -> None:
    look().close()
    told = dict(log.extra_headers)
    for head, problem in (
        (f"2.{'0' * 16}", "rollback: "),
        (f"3.{'0' * 16}", "fork: "),
        ("3", "Keyhouse-Log"),
        (None, "no head"),
    ):
        log.extra_headers.pop("Keyhouse-Log", None)
        log.extra_headers |= {} if head is None else {"Keyhouse-Log": head}
        with pytest.raises(TrustError, match=problem):
            look()
    log.extra_headers = told
    look().close()


def test_what_is_not_signed_or_not_whole_proves_nothing(log: Log, look: Look) -> None:
    look().close()
    log.grow(5)
    whole, verifier = dict(log.replies), log.verifier
    log.sign_key(b"keyhouse log key v2\0" + str(verifier).encode())
    with pytest.raises(TrustError, match="key of the log"):
        look()
    log.replies = dict(whole)
    status, note = whole["GET", "/api/v2/log/checkpoint"]
    log.publish(note.replace(b"\n8\n", b"\n9\n"))
    with pytest.raises(TrustError, match='"keyhouse/test"'):
        look()
    log.publish(b"")
    with pytest.raises(TrustError, match="signed note"):
        look()
    log.replies = dict(whole)
    leaves, log.growing = log.growing, Growing()
    log.growing.extend([b"damaged"] * 8)
    with pytest.raises(TrustError, match="stated root"):
        look()
    log.growing = leaves
    assert status == 200
    look().close()


def test_the_sdk_reads_the_log(log: Log, look: Look) -> None:
    with look() as coordinator:
        log.grow(2)
        found = coordinator.log_checkpoint()
        assert (found.origin, found.size) == (log.origin, 5)
        assert coordinator.log_key().verifier_key == str(log.verifier)
        tile = coordinator.log_part("tile/0/000.p/5")
        assert Tile(0, 0, 5).width * 32 == len(tile)


# --- witnesses ---


@pytest.fixture(name="policy")
def _policy(tmp_path: Path) -> LogPolicy:
    path = tmp_path / "policy"
    lines = [f"witness W{n} {each.key}" for n, each in enumerate(WITNESSES)]
    path.write_text("\n".join([*lines, "group Q 2 W0 W1 W2", "quorum Q"]))
    return LogPolicy.from_file(path, 3600)


@pytest.mark.parametrize(
    ("ages", "problem"),
    [
        ((60, 60), ""),
        ((60, 9999, 60), ""),
        ((60, 3000, 9999), ""),
        ((), "no quorum"),
        ((60,), "no quorum"),
        ((60, 9999), "3600 s"),
        ((60, 9999, 9999), "3600 s"),
        ((60, -9999), ""),
        ((-9999, -9999), "future"),
        ((-(2**62), -(2**62)), "future"),  # no date: after the year 9999
    ],
)
def test_a_quorum_of_witnesses_has_seen_the_log_not_long_ago(
    log: Log, look: Look, policy: LogPolicy, ages: tuple[int, ...], problem: str
) -> None:
    log.cosign(*ages)
    if not problem:
        look(policy).close()
        return
    with pytest.raises(TrustError, match=problem):
        look(policy)


def test_witnesses_may_be_behind_what_was_seen(log: Log, look: Look, policy: LogPolicy) -> None:
    log.cosign(60, 60)
    with look(policy) as coordinator:
        log.grow(5)
        coordinator.status()
        assert coordinator.witnessed_checkpoint().size == 3
        assert coordinator.log_checkpoint().size == 8
    look(policy).close()
    growing, log.growing = log.growing, Growing()
    log.grow(3, "of a copy")
    log.cosign(60, 60)
    log.growing = growing
    log.grow(1)
    with pytest.raises(TrustError, match=r"fork: .* 9 .* 3 "):
        look(policy)


def test_a_session_asks_for_the_witnesses_again(log: Log, look: Look, policy: LogPolicy) -> None:
    trust = Trust(
        expected=log.platform.expected_identity,
        collateral=log.platform.collateral,
        root_ca_der=log.platform.root_ca,
        log_policy=policy,
    )
    log.cosign(60, 60)
    with look(policy) as coordinator:
        coordinator.attest(trust)
        log.cosign(60, 9999)
        with pytest.raises(TrustError, match="3600 s"):
            coordinator.attest(trust)


def test_a_coordinator_without_a_manifest_has_no_log_to_witness(
    log: Log, look: Look, policy: LogPolicy
) -> None:
    log.extra_headers = {}
    look(policy).close()
    log.extra_headers = {"Keyhouse-State": f"1.9.{'0' * 16}"}
    log.replies.pop(("GET", "/api/v2/log/key"))
    with pytest.raises(TrustError, match="log cannot be read"):
        look(policy)


def test_a_session_from_before_the_manifest_carries_nothing_secret(
    log: Log, look: Look, policy: LogPolicy
) -> None:
    headers, log.extra_headers = log.extra_headers, {}
    with look(policy) as coordinator:
        log.extra_headers = headers  # by now someone has set a manifest, which no witness knows
        assert coordinator.status().code == 3
        log.requests.clear()
        for call in (
            lambda: coordinator.secrets(["a"]),
            lambda: coordinator.write_secrets({"a": SecretUpload(key=Secret(b"a"))}),
            lambda: coordinator.update(b"{}"),
            coordinator.cancel,
        ):
            with pytest.raises(TrustError, match="no witness"):
                call()
        assert log.requests == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "no quorum line"),
        (b"quorum none\n", "demands no witness"),
        (b"\xff", "not UTF-8"),
        (b"witness A b\nquorum A\n", "line 1 of the policy"),
    ],
)
def test_a_policy_that_demands_nothing_is_refused(
    tmp_path: Path, text: bytes, problem: str
) -> None:
    path = tmp_path / "policy"
    path.write_bytes(text)
    with pytest.raises(ClientSetupError, match=problem):
        LogPolicy.from_file(path)


# --- the rules ---


@pytest.mark.parametrize("text", ["", "3", "0." + "a" * 16, "03." + "a" * 16, "3." + "A" * 16])
def test_a_head_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(TrustError, match="Keyhouse-Log"):
        read_head(text)


def test_heads_are_kept_until_they_are_proven() -> None:
    heads = with_head((), head(5), HERE)
    heads = with_head(heads, head(9), HERE)
    heads = with_head(heads, head(7), HERE)  # an answer that was overtaken
    assert heads == (head(5), head(7), head(9))
    assert with_head(heads, head(7), HERE) is heads
    assert with_head(heads, head(4), HERE) is heads
    assert with_proven(heads, ProvenHead(head(9), heads), HERE) == (head(9),)
    came = with_head(heads, head(8), HERE)  # meanwhile, from another process
    assert with_proven(came, ProvenHead(head(10), heads), HERE) == (head(8), head(10))
    with pytest.raises(TrustError, match="fork"):
        with_proven(came, ProvenHead(LogHead(8, "b" * 16), heads[:1]), HERE)
    with pytest.raises(TrustError, match="fork"):
        with_head(heads, LogHead(7, "b" * 16), HERE)
    many = tuple(head(size) for size in range(1, MOST_HEADS + 1))
    with pytest.raises(TrustError, match="1000 heads"):
        with_head(many, head(5000), HERE)


def test_a_memory_without_heads_is_of_version_1(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "known.json")
    root = "11" * 32
    place = Place(1, 5, "a" * 16)
    wanted = Memories({"h:1": root}, {root: (place,)}, {root: (head(3), head(4))})
    memory.change(lambda _: wanted)
    raw = memory.path.read_bytes()
    assert FileMemory(memory.path).read() == wanted
    for damaged in (
        raw.replace(b'"version": 2', b'"version": 1'),
        raw.replace(b"3.aa", b"9.aa"),
        raw.replace(b"4.aa", b"x.aa"),
    ):
        assert damaged != raw
        memory.path.write_bytes(damaged)
        with pytest.raises(MemoryUnusableError, match="is damaged"):
            FileMemory(memory.path).read()
    old = b'{"version": 1, "roots": {"h:1": "%s"}, "places": {"%s": ["%s"]}}'
    memory.path.write_bytes(old % (root.encode(), root.encode(), str(place).encode()))
    assert FileMemory(memory.path).read() == Memories({"h:1": root}, {root: (place,)})


def head(size: int) -> LogHead:
    return LogHead(size, "a" * 16)
