"""Texts of a log and its witnesses: notes, cosignatures, keys, policies, tiles, leaves, approvals.

Oracle: the only permitted exception is ``LogInvalidError``. Each accepted text is written as the
same bytes, except a policy, which has no fixed form. All witnesses together satisfy a policy. An
empty set of witnesses satisfies only a policy without a quorum. A signature verifies only over the
signed bytes. Readers return exactly the appended entries.

The samples come from the recorded evidence file and from a log of numbers.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import ClassVar, Final

import msgspec
from fuzz.documents import changed_value
from fuzz.mutations import mutated
from fuzz.target import FindingError, Target
from support.evidence import GOLDEN

from keyhouse.evidence.bundle import Evidence, read_evidence
from keyhouse.evidence.collect import proof_of
from keyhouse.journal.log_store import Growing
from keyhouse.manifest import decode
from keyhouse.transparency.approval import SignedApproval
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import VerifierKey, cosigned, verified
from keyhouse.transparency.leaf import encode_leaf, read_leaf
from keyhouse.transparency.log_reader import entries_after, objects_named
from keyhouse.transparency.note import Checkpoint, NoteSignature, SignedNote
from keyhouse.transparency.policy import CosignaturePolicy
from keyhouse.transparency.tiles import Tile, bundle, bundled
from keyhouse.transparency.tree import Frontier, leaf_hash

__all__ = ["LogTarget"]

_LEAVES: Final = 600
_PROVEN: Final = 299
_KNOWN: Final = (0, 1, 255, 256, 300, 512, 599)
_WORDS: Final = (
    *(b"\n", b"\n\n", b"\r\n", b" ", b"\t", b"+", b"=", b"/", b"\0", b"\xe2\x80\x94 ", b"\xff"),
    *(b"0", b"-1", b"9" * 30, b"x001/", b".p/", b"[" * 1_500, b'{"a":', b'"kind":', b"\\u0000"),
    *(b"witness ", b"group ", b"quorum ", b"none", b"any", b"all", b"log ", b"#", b"entries/"),
)
_PATHS: Final = (b"0/000", b"0/x001/234.p/5", b"entries/x001/x234/067", b"63/000.p/255")


class _Case(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    raw: bytes
    place: int = 0  # number for choices of the kind


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Case)


class LogTarget(Target):
    """Parts of a log with a few changes."""

    name: ClassVar[str] = "log"
    about: ClassVar[str] = "notes, cosignatures, keys, policies, tiles and leaves of a log"

    def __init__(self) -> None:
        evidence = read_evidence((GOLDEN / "deployment.evidence.json").read_bytes())
        policy = (GOLDEN / "witnesses.policy").read_bytes()
        self._log = VerifierKey.read(evidence.log.key)
        self._witnesses = [each.key for each in CosignaturePolicy.read(policy.decode()).witnesses]
        self._notes = [SignedNote.read(each.encode()) for each in evidence.checkpoints]
        self._users = dict(_users(evidence))
        self._approvals = [
            raw for raw in evidence.objects.values() if raw.startswith(b'{"payload"')
        ]
        self._numbers = [b"%d" % number for number in range(_LEAVES)]
        self._tree = Growing()
        self._tree.extend(self._numbers)
        keys = [str(key).encode() for key in (self._log, *self._witnesses)]
        answers = [b"".join(line.encode() for line in each.signatures) for each in self._notes]
        self._samples: dict[str, list[bytes]] = {
            "note": [each.encode() for each in self._notes],
            "answer": answers,
            "key": keys,
            "policy": [policy, b"log %b\n%b" % (keys[0], policy)],
            "path": [*_PATHS],
            "bundle": [bundle(self._numbers[:5])],
            "leaf": [each for each in evidence.entries if isinstance(each, bytes)],
            "approval": self._approvals,
            "tile": [self._tree.read(each) or b"" for each in self._tree.tiles()],
        }
        self._judges: dict[str, Callable[[bytes, int], None]] = {
            "note": self._note,
            "answer": self._answer,
            "key": lambda raw, _: _same(raw, str(VerifierKey.read(_text(raw))).encode()),
            "policy": lambda raw, _: _policy(raw),
            "path": lambda raw, _: _same(raw, Tile.read(_text(raw)).path.encode()),
            "bundle": lambda raw, place: _same(raw, bundle(bundled(raw, place % 8))),
            "leaf": lambda raw, _: _leaf(raw),
            "approval": self._approval,
            "tile": self._tile,
        }

    def draw(self, chance: Random) -> bytes:
        """Return a part. Most parts are changed."""
        kind = chance.choice(list(self._samples))
        place = chance.randrange(len(self._samples[kind]))
        raw = self._samples[kind][place]
        if chance.random() < 0.9:
            change = _changed_json if raw.startswith(b"{") and chance.random() < 0.6 else mutated
            raw = change(raw, chance, _WORDS)
        return _encode(_Case(kind, raw, place if kind == "tile" else chance.randrange(64)))

    def judge(self, case: bytes) -> str:
        """Read the part, and verify its signatures."""
        given = _decoder.decode(case)
        try:
            self._judges[given.kind](given.raw, given.place)
        except LogInvalidError:
            return f"refused: {given.kind}"
        return f"read: {given.kind}"

    def _note(self, raw: bytes, _: int) -> None:
        note = SignedNote.read(raw)
        _same(raw, note.encode())
        checkpoint = Checkpoint.read(note.text)
        _same(note.text[: len(checkpoint.encode())], checkpoint.encode())
        verified(note, [self._log, *self._witnesses])
        if note.text not in {each.text for each in self._notes}:
            raise FindingError("a text without a signature was verified")

    def _answer(self, raw: bytes, place: int) -> None:
        """Add the answer of a witness to a note with only the signature of the log."""
        whole = self._notes[place % len(self._notes)]
        witness = self._witnesses[place % len(self._witnesses)]
        found = cosigned(SignedNote(whole.text, whole.signatures[:1]), raw, witness)
        if not set(found.signatures) <= set(whole.signatures):
            raise FindingError("a cosignature was accepted that the witness did not make")

    def _approval(self, raw: bytes, _: int) -> None:
        signed = SignedApproval.read(raw)
        certificate = self._users.get(signed.approval.user)
        if certificate is None:
            return
        signed.verify(certificate)
        if signed.message not in {SignedApproval.read(each).message for each in self._approvals}:
            raise FindingError("an approval without a signature was verified")

    def _tile(self, raw: bytes, place: int) -> None:
        """Replace a tile of the log of numbers by ``raw``; read the log, and prove an entry."""
        tiles = {f"tile/{each.path}": self._tree.read(each) or b"" for each in self._tree.tiles()}
        tiles[list(tiles)[place]] = raw
        root, refused = self._tree.frontier.root, False
        for known in _KNOWN:
            before = Frontier().extended(map(leaf_hash, self._numbers[:known]))
            try:
                pieces = list(entries_after(tiles.__getitem__, before, _LEAVES, root))
            except LogInvalidError:
                refused = True
                continue
            if [entry for piece in pieces for entry in piece] != self._numbers[known:]:
                raise FindingError("entries were read that are not in the log")
        line = NoteSignature("log", bytes(4), bytes(64))
        note = SignedNote(Checkpoint("log", _LEAVES, root).encode(), (line,)).encode()
        extra = proof_of(tiles.get, note, _PROVEN).split(b"\n")[1]
        _same(extra, b"extra " + b64encode(self._numbers[_PROVEN]))
        if refused:
            raise LogInvalidError("a part of the log is damaged")


def _changed_json(raw: bytes, chance: Random, words: Sequence[bytes]) -> bytes:
    """Return the object ``raw`` with a changed value in canonical form, or with inserted words."""
    if chance.random() < 0.5:
        value = changed_value(json.loads(raw), chance)
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode(errors="surrogatepass")
    colons = [at for at, byte in enumerate(raw, 1) if byte == ord(":")]
    at = chance.choice(colons)
    return raw[:at] + chance.choice(words) + raw[at:]


def _users(evidence: Evidence) -> Iterator[tuple[str, bytes]]:
    for raw in evidence.objects.values():
        if raw.startswith(b'{"Packages"') and b'"Users"' in raw:
            for name, user in decode(raw).users.items():
                yield name, user.certificate


def _text(raw: bytes) -> str:
    """Return the text of ``raw``. Callers pass only text to the readers."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise LogInvalidError("not UTF-8") from None


def _policy(raw: bytes) -> None:
    policy = CosignaturePolicy.read(_text(raw))
    everybody = {each.key for each in policy.witnesses}
    if not policy.holds(everybody) or policy.holds(()) is not (policy.quorum is None):
        raise FindingError("a policy is satisfied without witnesses, or not by all witnesses")
    for each in policy.witnesses:
        with suppress(LogInvalidError):
            each.require_url()
    if not -1 <= policy.tolerated_liars < max(len(everybody), 1):
        raise FindingError("a policy tolerates as many liars as it has witnesses")


def _leaf(raw: bytes) -> None:
    leaf = read_leaf(raw)
    _same(raw, encode_leaf(leaf))
    list(objects_named(leaf, lambda _: None))


def _same(one: bytes, other: bytes) -> None:
    if one != other:
        raise FindingError("an accepted text is written as different bytes")
