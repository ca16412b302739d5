"""A verified evidence file for people: its leaves as rows, then the unproven parts."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from typing import Final, TypeVar

import msgspec

from keyhouse.evidence.gaps import Claim, Gap
from keyhouse.evidence.verify import Judged, Outcome, Verified
from keyhouse.evidence.wording import CLAIMED, joined_names, text_of
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
"""The statements that no evidence file proves."""


class Lane(StrEnum):
    """The subject of a leaf, and its lane on the time line: code, manifests, people, witnesses."""

    CODE = "code"
    MANIFESTS = "manifests"
    PEOPLE = "people"
    WITNESSES = "witnesses"


class ReportRow(msgspec.Struct, frozen=True):
    """A row of the report: a leaf of the log, or several similar leaves.

    ``first`` and ``last`` are numbers of leaves. Times are UTC, and belong to the last leaf.
    """

    first: int
    last: int
    lane: Lane
    claimed: datetime | None
    witnessed: datetime | None
    text: str  # with the unproven parts, in a few words
    event: str  # without the unproven parts
    is_marked: bool = False  # for the reader's attention
    gaps: tuple[Gap, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def numbers(self) -> str:
        """The numbers of the leaves in this row, as text."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def rows_of(verified: Verified) -> list[ReportRow]:
    """Return the history in rows. Consecutive uploads, anchors and hidden leaves share a row."""
    rows: list[ReportRow] = []
    indexed = enumerate(verified.entries)
    for kind, group in groupby(indexed, key=lambda each: _joined(each[0], each[1])):
        some = list(group)
        first, last = some[0][0], some[-1]
        if isinstance(kind, int):
            rows.append(_row(verified.entries, kind))
            continue
        event = _of_many(kind, [each for _, each in some])
        gaps = _union(each.gaps for _, each in some)
        claims = _union(each.claims for _, each in some)
        lane = Lane.PEOPLE if kind == "uploads" else Lane.CODE
        claimed = _moment(last[1])
        rows.append(
            ReportRow(
                first=first,
                last=last[0],
                lane=lane,
                claimed=claimed,
                witnessed=last[1].time,
                text=event + CLAIMED * bool(claims),
                event=event,
                is_marked=bool(gaps),
                gaps=gaps,
                claims=claims,
            )
        )
    return rows


def gaps_of(verified: Verified) -> list[str]:
    """Return each gap and each claim of each log as a text, with the numbers of its leaves.

    The last texts are the statements that no evidence file proves (``NEVER_PROVEN``).
    """
    gaps = (
        f"{gap}: {gap.text}{_in_brackets(where_in(verified, log, numbers))}"
        for log in verified.logs
        for gap, numbers in log.gaps.items()
    )
    claims = (
        f"{claim}: {claim.text}{_in_brackets(where_in(verified, log, numbers))}"
        for log in verified.logs
        for claim, numbers in log.claims.items()
    )
    return [*gaps, *claims, *NEVER_PROVEN]


def where_in(verified: Verified, log: Verified, entries: Sequence[int]) -> str:
    """Return ``entries``, the numbers of leaves in ``log``, as text.

    ``log`` is ``verified`` or the result for an earlier log; the text names an earlier log. Without
    numbers, the text is about the whole file, and "" for ``verified``.
    """
    if log is verified:
        return entry_numbers(entries) if entries else ""
    numbers = entry_numbers(entries) if entries else "the whole file"
    return f"{numbers} of the log before, {log.evidence.origin}"


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def summary_of(verified: Verified) -> dict[str, str]:
    """Return the facts of a verified evidence file as short texts by name."""
    evidence, last = verified.evidence, verified.milestones[-1]
    final = verified.entries[-1].after
    summary = {
        "log": evidence.origin,
        "root certificate": object_name(evidence.root),
        "entries": str(last.checkpoint.size),
        "root of the tree": last.checkpoint.root.hex(),
        "manifest in force": final.manifest or "not known",
    }
    for log in verified.logs[1:]:
        end = log.milestones[-1].checkpoint
        summary[f"log before, {end.origin}"] = f"{end.size} entries, root {end.root.hex()}"
    if verified.pins is not None:
        summary["witnesses"] = ", ".join(last.witnesses) or "none"
        summary["witnessed"] = "never" if last.time is None else in_words(last.time)
    if final.roots:
        summary["marble roots"] = joined_names(
            f"{root} until {in_words(_moment_of(end))}" if end else f"{root} in force"
            for root, end in final.roots.items()
        )
    if verified.head is not None:
        code = verified.head.mrenclave.hex() or "of a confidential VM"
        summary["hardware at the end"] = f"code {code}, platform status {verified.head.tcb_status}"
    return summary


def result_of(verified: Verified) -> dict[str, object]:
    """Return the result for programs: the outcome, each gap and each claim with its leaves.

    "before" lists name, size, root, gaps and claims of each earlier log, the newest first.
    """
    refused = set(verified.not_allowed)
    return {
        "outcome": verified.outcome,
        "verified": verified.outcome in {Outcome.PROVEN, Outcome.EXCEPT_ALLOWED},
        "witnessed": verified.witnessed,
        "simulation": verified.is_simulated,
        **_open_points(verified, refused),
        "before": [
            {
                "origin": log.evidence.origin,
                "size": log.milestones[-1].checkpoint.size,
                "root": log.milestones[-1].checkpoint.root.hex(),
                "witnessed": log.witnessed,
                **_open_points(log, refused),
            }
            for log in verified.logs[1:]
        ],
    }


def _open_points(log: Verified, refused: set[Gap]) -> dict[str, object]:
    """Return the gaps and claims of ``log``. The auditor does not allow the gaps in ``refused``."""
    gaps = [
        {"name": gap, "text": gap.text, "allowed": gap not in refused, "entries": entries}
        for gap, entries in log.gaps.items()
    ]
    claims = [
        {"name": claim, "text": claim.text, "entries": entries}
        for claim, entries in log.claims.items()
    ]
    return {"gaps": gaps, "claims": claims}


def in_words(time: datetime | None) -> str:
    """Return ``time`` in UTC to the second, or "" for None."""
    return "" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _joined(index: int, judged: Judged) -> int | str:
    """Return a key for the row of a leaf. Consecutive leaves with an equal key share a row.

    The key is the kind of a hidden leaf, an upload or an anchor. For any other leaf the key is
    ``index``, its number, so the leaf has a row of its own.
    """
    match judged.leaf:
        case None:
            return "hidden"
        case leaves.SecretsUploadedLeaf():
            return "uploads"
        case leaves.AnchorLeaf():
            return "anchors"
        case _:
            return index


def _of_many(kind: str, some: Sequence[Judged]) -> str:
    if kind == "hidden":
        return f"hidden entries: {len(some)}"
    if kind == "anchors":
        return f"no change: {len(some)} signs of life for the witnesses"
    uploads = [
        each
        for judged in some
        if isinstance(judged.leaf, leaves.SecretsUploadedLeaf)
        for each in judged.leaf.uploads
    ]
    users = joined_names(dict.fromkeys(each.user for each in uploads))
    names = joined_names(dict.fromkeys(name for each in uploads for name in each.names))
    return f"{users} uploaded: {names}"


def _row(entries: Sequence[Judged], index: int) -> ReportRow:
    judged = entries[index]
    before = entries[index - 1].after if index else None
    leaf = judged.leaf
    assert leaf is not None  # noqa: S101 hidden entries are joined
    text = text_of(leaf, before)
    event = text.removesuffix(CLAIMED)
    if Gap.NOT_SIGNED in judged.gaps:
        text += ", not signed"
    text += "".join(f", {note}" for note in judged.notes)
    return ReportRow(
        first=index,
        last=index,
        lane=_lane(leaf),
        claimed=_moment(judged),
        witnessed=judged.time,
        text=text,
        event=event,
        is_marked=bool(judged.gaps or judged.notes),
        gaps=judged.gaps,
        claims=judged.claims,
        notes=judged.notes,
    )


_T = TypeVar("_T")


def _union(each: Iterable[tuple[_T, ...]]) -> tuple[_T, ...]:
    """Return all values in ``each`` without repetition."""
    return tuple(dict.fromkeys(one for several in each for one in several))


def _lane(leaf: Leaf) -> Lane:
    if isinstance(leaf, leaves.LogBegunLeaf | leaves.StartedLeaf | leaves.RecoveredLeaf):
        return Lane.CODE
    if isinstance(leaf, leaves.ManifestSetLeaf | leaves.ManifestUpdatedLeaf):
        return Lane.MANIFESTS
    if isinstance(leaf, leaves.TrustLeaf) and leaf.what == leaves.TrustChange.ROOTS:
        return Lane.MANIFESTS
    return Lane.PEOPLE


def _moment(judged: Judged) -> datetime | None:
    if judged.leaf is None:
        return None
    return _moment_of(judged.leaf.time)


def _moment_of(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC)


def entry_numbers(entries: Sequence[int]) -> str:
    """Return ``entries``, numbers of leaves, as text; consecutive numbers become a range."""
    return ("entries " if len(entries) > 1 else "entry ") + joined_names(_ranges(entries))


def _ranges(entries: Sequence[int]) -> Iterator[str]:
    for _, group in groupby(enumerate(entries), key=lambda each: each[1] - each[0]):
        some = [number for _, number in group]
        yield str(some[0]) if len(some) == 1 else f"{some[0]}-{some[-1]}"
