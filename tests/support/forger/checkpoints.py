"""False checkpoints and cosignatures, by the holder of the log's key and by lying witnesses."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from keyhouse.transparency.keys import signature_of
from keyhouse.transparency.note import Checkpoint, NoteSignature, SignedNote
from keyhouse.transparency.tree import Frontier
from support.cosigner import Cosigner
from support.evidence import Maker
from support.forger.draft import Draft, cosigned
from support.forger.kind import Forge, Kind

__all__ = ["CHECKPOINTS"]

Rewrite = Callable[[Maker, Draft, Frontier], SignedNote]
_DAY: Final = timedelta(days=1)
_MOMENT: Final = timedelta(seconds=1)


def _last(rewrite: Rewrite) -> Forge:
    """Return a forgery with checkpoints by ``rewrite``; the last checkpoint decides."""

    def forge(draft: Draft, chance: Random) -> bool:
        del chance
        draft.note = rewrite
        return True

    return forge


def _times(*times: timedelta) -> Forge:
    return _last(lambda maker, draft, tree: cosigned(maker, draft, tree, times=times))


def _lines(change: Callable[[Maker, SignedNote], list[NoteSignature]]) -> Forge:
    def rewrite(maker: Maker, draft: Draft, tree: Frontier) -> SignedNote:
        note = cosigned(maker, draft, tree)
        return SignedNote(note.text, tuple(change(maker, note)))

    return _last(rewrite)


def _text(change: Callable[[Checkpoint], bytes]) -> Forge:
    """Return a forgery: the log and all witnesses sign a changed text."""

    def rewrite(maker: Maker, draft: Draft, tree: Frontier) -> SignedNote:
        text = change(Checkpoint(maker.origin, tree.size, tree.root))
        return cosigned(maker, draft, tree, text=text)

    return _last(rewrite)


def _notes(change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Forge:
    """Return a forgery with a changed list of unchanged checkpoints."""

    def forge(draft: Draft, chance: Random) -> bool:
        del chance
        draft.milestones = {2, len(draft.said) - 1}
        draft.changes.append(lambda _, found: replace(found, checkpoints=change(found.checkpoints)))
        return True

    return forge


def _backwards(maker: Maker, draft: Draft, tree: Frontier) -> SignedNote:
    """Have witnesses cosign the whole log a day before they cosign a part of the log."""
    late = timedelta() if tree.size == len(draft.said) else _DAY
    return cosigned(maker, draft, tree, times=(late, late, late))


def _run_back(draft: Draft, chance: Random) -> bool:
    del chance
    draft.milestones = {2}
    draft.pins["now"] = draft.seen + 9 * _DAY
    draft.note = _backwards
    return True


def _strange(name: str) -> Callable[[Maker, SignedNote], list[NoteSignature]]:
    """Return a change: a stranger cosigns under the name of a witness."""

    def change(_maker: Maker, note: SignedNote) -> list[NoteSignature]:
        stranger = Cosigner.ed25519(name)
        return [note.signatures[0], stranger.line(note.text), *note.signatures[3:]]

    return change


def _by_other_log(maker: Maker, note: SignedNote) -> list[NoteSignature]:
    other = Ed25519PrivateKey.generate()
    return [signature_of(other, maker.key, note.text), *note.signatures[1:]]


def _damaged(place: int) -> Callable[[Maker, SignedNote], list[NoteSignature]]:
    def change(_maker: Maker, note: SignedNote) -> list[NoteSignature]:
        lines = list(note.signatures)
        raw = lines[place].raw
        lines[place] = replace(lines[place], raw=raw[:-1] + bytes([raw[-1] ^ 1]))
        return lines

    return change


_FORGERIES: Final[dict[str, tuple[str, Forge]]] = {
    "no witness": ("nobody", _lines(lambda _, note: [note.signatures[0]])),
    "one witness": ("witness", _times(timedelta())),
    "one witness twice": (
        "witness",
        _lines(lambda _, note: [*note.signatures[:2], note.signatures[1]]),
    ),
    "not signed by the log": ("witness", _lines(lambda _, note: [*note.signatures[1:]])),
    "signed by another log": ("coordinator", _lines(_by_other_log)),
    "a damaged signature of the log": ("nobody", _lines(_damaged(0))),
    "a damaged cosignature": ("nobody", _lines(_damaged(1))),
    "a stranger under the name of a witness": ("nobody", _lines(_strange("witness.example/a"))),
    "a stranger under another name": ("nobody", _lines(_strange("witness.example/z"))),
    "witnesses of the next year": ("witness", _times(365 * _DAY, 365 * _DAY, 365 * _DAY)),
    "two witnesses of the next year": ("witness", _times(_MOMENT, 365 * _DAY, 365 * _DAY)),
    "witnesses of tomorrow": ("witness", _times(_DAY, _DAY, _DAY)),
    "witnesses of 1970": ("witness", _times(-99_999 * _DAY, -99_999 * _DAY, -99_999 * _DAY)),
    "witnesses of the last year": ("witness", _times(-365 * _DAY, -365 * _DAY, -365 * _DAY)),
    "times of witnesses run back": ("witness", _run_back),
    "of another origin": (
        "coordinator",
        _text(lambda found: replace(found, origin="log.example.org/other").encode()),
    ),
    "of a larger log": (
        "coordinator",
        _text(lambda found: replace(found, size=found.size + 1).encode()),
    ),
    "of a smaller log": (
        "coordinator",
        _text(lambda found: replace(found, size=found.size - 1).encode()),
    ),
    "of another tree": (
        "coordinator",
        _text(lambda found: replace(found, root=bytes(32)).encode()),
    ),
    "with an extension": ("coordinator", _text(lambda found: found.encode() + b"more\n")),
    "with a size of more digits": (
        "coordinator",
        _text(lambda found: found.encode().replace(b"\n", b"\n0", 1)),
    ),
    "none": ("nobody", _notes(lambda _: ())),
    "none over all entries": ("nobody", _notes(lambda notes: notes[:-1])),
    "in another order": ("nobody", _notes(lambda notes: notes[::-1])),
    "65 of one size": ("nobody", _notes(lambda notes: notes[:1] * 65 + notes[1:])),
    "65 of the last size": ("nobody", _notes(lambda notes: notes + notes[-1:] * 64)),
    "one that is no note": ("nobody", _notes(lambda notes: (notes[0][:-1], *notes[1:]))),
    "one with another end of lines": (
        "nobody",
        _notes(lambda notes: (notes[0].replace("\n", "\r\n"), *notes[1:])),
    ),
}

CHECKPOINTS: Final = [
    Kind(f"checkpoint: {name}", holder, forge) for name, (holder, forge) in _FORGERIES.items()
]
