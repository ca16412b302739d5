"""A checkpoint for one witness: the effects of its answers and of our files."""

from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.cosigner import Cosigner

from keyhouse.base.secret import Secret
from keyhouse.coordinator import signed_checkpoint
from keyhouse.coordinator.core.state import PublicLog
from keyhouse.coordinator.witnessing.submission import MOST_RETRIES, Submission, WitnessOutcome
from keyhouse.journal import LogStore, StoreUnreadableError
from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.log_files import DirectoryParts, LogFiles
from keyhouse.transparency.keys import ED25519, VerifierKey
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.policy import Witness
from keyhouse.transparency.tiles import Tile
from keyhouse.transparency.tree import Frontier, leaf_hash, require_consistent
from keyhouse.witnesses.answers import Cosigned, OtherSize, WitnessAnswer

SIZE = 300
LEAVES = [b"leaf %d" % number for number in range(SIZE)]
COSIGNER = Cosigner.ed25519()
WITNESS = Witness("W", COSIGNER.verifier)
KEY = Ed25519PrivateKey.generate()
VERIFIER = VerifierKey("log.example/a", ED25519, KEY.public_key().public_bytes_raw())


def frontier(size: int) -> Frontier:
    return Frontier().extended(map(leaf_hash, LEAVES[:size]))


class Peer:
    """A witness that answers ``sizes``, then cosigns. ``asked``: the submitted old sizes."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)
        self.asked: list[int] = []

    async def add_checkpoint(
        self, witness: Witness, old: int, proof: Sequence[bytes], note: bytes
    ) -> WitnessAnswer:
        assert witness is WITNESS
        if 0 < old < SIZE:
            roots = frontier(old).root, frontier(SIZE).root
            require_consistent(old, SIZE, list(proof), *roots)
        self.asked.append(old)
        if self.sizes:
            return OtherSize(self.sizes.pop(0))
        return Cosigned(COSIGNER.line(SignedNote.read(note).text).encode())


class Parts(DirectoryParts):
    """The files of the log; with a ``fault``, reads of tiles fail."""

    fault: Exception | None = None

    async def tile(self, tile: Tile) -> bytes:
        if self.fault is not None:
            raise self.fault
        return await super().tile(tile)


def made(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


def erase(folder: Path) -> None:
    tiles = [each for each in folder.glob("log/*/hashes/**/*") if each.is_file()]
    assert tiles
    for tile in tiles:
        tile.write_bytes(bytes(tile.stat().st_size))


async def submitted(
    folder: Path, peer: Peer, old: int = 0, *, fault: Exception | None = None, damage: bool = False
) -> WitnessOutcome:
    parts = Parts(LogFiles(made(folder), "ab" * 16, Disk()))
    store = LogStore(parts)
    store.extend(LEAVES)
    await store.write_complete_tiles()
    parts.fault = fault
    if damage:
        erase(folder)
    log = PublicLog(Secret(KEY.private_bytes_raw()), str(VERIFIER), b"", frontier(SIZE))
    return await Submission(log, signed_checkpoint(log), store).to(WITNESS, old, peer)


async def test_a_witness_that_others_ask_as_well_is_asked_again_as_its_log_grows(
    tmp_path: Path,
) -> None:
    peer = Peer(*range(120, 120 + MOST_RETRIES))
    outcome = await submitted(tmp_path / "a", peer, 100)
    assert outcome.note is not None
    assert peer.asked == [100, *range(120, 120 + MOST_RETRIES)]

    endless = Peer(*range(120, SIZE))
    outcome = await submitted(tmp_path / "b", endless, 100)
    assert (outcome.note, outcome.contradicts, outcome.has) == (None, False, 0)
    assert len(endless.asked) == 1 + MOST_RETRIES


async def test_a_larger_size_is_a_claim_and_an_equal_one_after_it_a_contradiction(
    tmp_path: Path,
) -> None:
    assert (await submitted(tmp_path / "a", Peer(SIZE + 1))).has == SIZE + 1
    assert (await submitted(tmp_path / "b", Peer(SIZE, SIZE))).contradicts
    assert (await submitted(tmp_path / "c", Peer(SIZE))).note is not None


async def test_damaged_files_are_told_from_a_store_that_does_not_answer(tmp_path: Path) -> None:
    away = StoreUnreadableError("the database does not answer")
    peer = Peer()
    outcome = await submitted(tmp_path / "a", peer, 100, fault=away)
    assert outcome == WitnessOutcome(why="the database does not answer")
    outcome = await submitted(tmp_path / "b", peer, 100, damage=True)
    assert outcome.damaged
    assert peer.asked == []
