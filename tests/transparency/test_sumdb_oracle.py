"""Trees, proofs, notes and paths, compared with golang.org/x/mod/sumdb, which Go itself uses.

It is in the sources of every Go, so nothing is downloaded. One process gets all questions.
"""

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.process.tool import built_with_sumdb
from support.tree import Tree

from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.inclusion import inclusion_proof, require_included
from keyhouse.transparency.keys import ED25519, VerifierKey, signature_of, verified
from keyhouse.transparency.note import Checkpoint, SignedNote
from keyhouse.transparency.tiles import Tile
from keyhouse.transparency.tree import consistency_proof, require_consistent

ORACLE = Path(__file__).parent / "sumdb_oracle"
LARGE = 1_000_000
DAMAGED = int(os.environ.get("KEYHOUSE_TESTS_PROOFS", "4000"))
"""Damaged proofs that both judge."""
Question = dict[str, object]


@pytest.fixture(name="oracle")
def _oracle(tmp_path: Path) -> Path:
    return built_with_sumdb(ORACLE, tmp_path)


def test_sumdb_makes_and_decides_the_same(oracle: Path, tmp_path: Path) -> None:
    chosen = random.Random(18)  # noqa: S311 cases of a test
    tree = Tree(LARGE)
    questions = [
        *(question for size in range(1, 301) for question in _made(tree, size, chosen, 3)),
        *(
            question
            for _ in range(20)
            for question in _made(tree, chosen.randint(301, LARGE), chosen, 5)
        ),
        *(_damaged(tree, chosen) for _ in range(DAMAGED)),
        *_notes(chosen),
        *_paths(chosen),
    ]
    asked = tmp_path / "questions"
    asked.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in questions))

    told = subprocess.run([oracle, asked], check=True, capture_output=True, text=True).stdout

    assert told.splitlines() == [f"asked {len(questions)}"]
    damaged = [each for each in questions if each["Kind"] != "tree" and not each.get("Made")]
    assert {True, False} == {each["Holds"] for each in damaged}


def _made(tree: Tree, size: int, chosen: random.Random, times: int) -> Iterator[Question]:
    root = tree.root(size)
    yield {"Kind": "tree", "Size": size, "Root": root}
    for _ in range(times):
        index, old = chosen.randrange(size), chosen.randint(1, size)
        proof = inclusion_proof(tree.node, index, size)
        yield _inclusion(tree, size, index, proof, root, made=True)
        proof = consistency_proof(tree.node, old, size)
        yield _consistency(tree.root(old), size, old, proof, root, made=True)


def _damaged(tree: Tree, chosen: random.Random) -> Question:
    size = chosen.randint(1, chosen.choice((9, 300, LARGE)))
    index, old = chosen.randrange(size), chosen.randint(1, size)
    root, old_root = tree.root(size), tree.root(old)
    included = chosen.random() < 0.5
    proof = (
        inclusion_proof(tree.node, index, size)
        if included
        else consistency_proof(tree.node, old, size)
    )
    match chosen.randrange(7):
        case 0 if proof:
            at = chosen.randrange(len(proof))
            proof[at] = bytes([proof[at][0] ^ 1]) + proof[at][1:]
        case 1 if proof:
            proof.pop(chosen.randrange(len(proof)))
        case 2:
            proof.insert(chosen.randint(0, len(proof)), chosen.randbytes(32))
        case 3:
            size += chosen.choice((-1, 1, 2, -size, 2**40))
        case 4:
            index, old = index + chosen.choice((-1, 1, size)), old + chosen.choice((-1, 1, size))
        case 5:
            root, old_root = old_root, root
        case _:
            proof = proof[::-1]
    if included:
        return _inclusion(tree, size, index, proof, root)
    return _consistency(old_root, size, old, proof, root)


def _inclusion(
    tree: Tree, size: int, index: int, proof: list[bytes], root: bytes, *, made: bool = False
) -> Question:
    leaf = tree.node(0, max(0, min(index, LARGE - 1)))
    try:
        require_included(leaf, index, size, proof, root)
        holds = True
    except LogInvalidError:
        holds = False
    return {
        "Kind": "inclusion", "Size": size, "Old": index, "Leaf": leaf, "Root": root,
        "Proof": proof, "Holds": holds, "Made": made,
    }  # fmt: skip


def _consistency(
    old_root: bytes, size: int, old: int, proof: list[bytes], root: bytes, *, made: bool = False
) -> Question:
    try:
        require_consistent(old, size, proof, old_root, root)
        holds = True
    except LogInvalidError:
        holds = False
    return {
        "Kind": "consistency", "Size": size, "Old": old, "OldRoot": old_root, "Root": root,
        "Proof": proof, "Holds": holds, "Made": made,
    }  # fmt: skip


def _notes(chosen: random.Random) -> Iterator[Question]:
    key = Ed25519PrivateKey.generate()
    verifier = VerifierKey("log.example/1", ED25519, key.public_key().public_bytes_raw())
    for size in range(600):
        text = Checkpoint("log.example/1", size, chosen.randbytes(32)).encode()
        raw = SignedNote(text, (signature_of(key, verifier, text),)).encode()
        if size:
            at = chosen.randrange(len(raw))
            change = (b"", b"\n", b" ", b"\xc2\xa0", b"A", bytes([raw[at] ^ 1]))
            raw = raw[:at] + chosen.choice(change) + raw[at + chosen.randrange(2) :]
        try:
            verified(SignedNote.read(raw), [verifier])
            holds = True
        except LogInvalidError:
            holds = False
        yield {
            "Kind": "note", "Key": str(verifier), "Text": raw, "Holds": holds,
        }  # fmt: skip


def _paths(chosen: random.Random) -> Iterator[Question]:
    for _ in range(3000):
        index = chosen.randrange(10 ** chosen.randint(1, 10))
        path = Tile(chosen.randrange(8), index, chosen.choice((1, 9, 255, 256))).path
        if chosen.random() < 0.7:
            at = chosen.randrange(len(path))
            path = path[:at] + chosen.choice("0123456789x/.p") + path[at + chosen.randrange(2) :]
        try:
            Tile.read(path)
            holds = True
        except LogInvalidError:
            holds = False
        yield {"Kind": "path", "Text": path.encode(), "Holds": holds}
