"""What a verified evidence file says, for people: its entries as rows, then what is not proven."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from typing import Final

import msgspec

from keyhouse.evidence.history import Gap
from keyhouse.evidence.verify import Judged, Verified
from keyhouse.evidence.wording import listed, text_of
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.leaf import Leaf, object_name

NEVER_PROVEN: Final = (
    "that Keyhouse's code is right, or that no code that ever held the keys lied about what it did",
    "who set the first manifest",
    "anything after the last time that witnesses or, without them, the coordinator named",
    "that activations, and reads and values of secrets, were proper",
    "that nobody with the hardware in hand forged its quotes",
    "that the witnesses are independent of each other",
)
"""What no evidence file proves."""


class Lane(StrEnum):
    """What an entry is about."""

    CODE = "code"
    MANIFESTS = "manifests"
    PEOPLE = "people"
    WITNESSES = "witnesses"


class Row(msgspec.Struct, frozen=True):
    """An entry, or several alike: their numbers, times (UTC, of the last) and what they say."""

    first: int
    last: int
    lane: Lane
    claimed: datetime | None
    witnessed: datetime | None
    text: str
    is_marked: bool = False  # for a reader to look at

    @property
    def numbers(self) -> str:
        """The numbers of its entries."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def rows_of(verified: Verified) -> list[Row]:
    """Return the history in rows; uploads, anchors and hidden entries in a row are one."""
    found: list[Row] = []
    indexed = enumerate(verified.entries)
    for kind, group in groupby(indexed, key=lambda each: _joined(each[0], each[1])):
        some = list(group)
        first, last = some[0][0], some[-1]
        if isinstance(kind, int):
            found.append(_row(verified.entries, kind))
            continue
        text = _of_many(kind, [each for _, each in some])
        marked = any(each.gaps for _, each in some)
        lane = Lane.PEOPLE if kind == "uploads" else Lane.CODE
        claimed = _moment(last[1])
        found.append(Row(first, last[0], lane, claimed, last[1].time, text, marked))
    return found


def gaps_of(verified: Verified) -> list[str]:
    """Return what was not proven of this file, each with its entries; then what never is."""
    own = [
        text if not numbers else f"{text} ({_numbers(numbers)})"
        for text, numbers in verified.gaps.items()
    ]
    return [*own, *NEVER_PROVEN]


def summary_of(verified: Verified) -> dict[str, str]:
    """Return the result in a few words, under their names."""
    evidence, last = verified.evidence, verified.milestones[-1]
    final = verified.entries[-1].after
    found = {
        "log": evidence.origin,
        "root certificate": object_name(evidence.root),
        "entries": str(last.checkpoint.size),
        "root of the tree": last.checkpoint.root.hex(),
        "manifest in force": final.manifest or "not known",
    }
    if verified.pins is not None:
        found["witnesses"] = ", ".join(last.witnesses) or "none"
        found["witnessed"] = "never" if last.time is None else in_words(last.time)
    if verified.head is not None:
        code = verified.head.mrenclave.hex() or "a confidential VM"
        found["vouched for by"] = f"{code}, {verified.head.tcb_status}"
    return found


def in_words(time: datetime | None) -> str:
    """Return ``time`` in UTC to the second; "" for none."""
    return "" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _joined(index: int, judged: Judged) -> int | str:
    """Return under which name entries in a row are one; of others their number."""
    match judged.leaf:
        case None:
            return "hidden"
        case leaves.SecretsUploaded():
            return "uploads"
        case leaves.Anchor():
            return "anchors"
        case _:
            return index


def _of_many(kind: str, some: Sequence[Judged]) -> str:
    if kind == "hidden":
        return f"hidden entries: {len(some)}"
    if kind == "anchors":
        return f"anchors of the journal: {len(some)}"
    uploads = [
        each
        for judged in some
        if isinstance(judged.leaf, leaves.SecretsUploaded)
        for each in judged.leaf.uploads
    ]
    users = listed(dict.fromkeys(each.user for each in uploads))
    names = listed(dict.fromkeys(name for each in uploads for name in each.names))
    return f"{users} uploaded: {names}"


def _row(entries: Sequence[Judged], index: int) -> Row:
    judged = entries[index]
    before = entries[index - 1].after if index else None
    leaf = judged.leaf
    assert leaf is not None  # noqa: S101 hidden ones are joined
    text = text_of(leaf, before)
    if Gap.NOT_SIGNED in judged.gaps:
        text += ", not signed"
    lane = _lane(leaf)
    return Row(index, index, lane, _moment(judged), judged.time, text, bool(judged.gaps))


def _lane(leaf: Leaf) -> Lane:
    if isinstance(leaf, leaves.LogBegun | leaves.Started | leaves.Recovered):
        return Lane.CODE
    if isinstance(leaf, leaves.ManifestSet | leaves.ManifestUpdated):
        return Lane.MANIFESTS
    return Lane.PEOPLE


def _moment(judged: Judged) -> datetime | None:
    if judged.leaf is None:
        return None
    return datetime.fromtimestamp(judged.leaf.time // 1_000_000, UTC)


def _numbers(entries: Sequence[int]) -> str:
    """Return numbers of entries, those in a row as one."""
    return ("entries " if len(entries) > 1 else "entry ") + listed(_ranges(entries))


def _ranges(entries: Sequence[int]) -> Iterator[str]:
    for _, group in groupby(enumerate(entries), key=lambda each: each[1] - each[0]):
        some = [number for _, number in group]
        yield str(some[0]) if len(some) == 1 else f"{some[0]}-{some[-1]}"
