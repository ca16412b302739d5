"""The history at a glance: counts of events, each with a short remark for auditors."""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from keyhouse.evidence.gaps import Gap
from keyhouse.evidence.verify import Judged, Verified
from keyhouse.evidence.wording import is_other_code
from keyhouse.transparency import leaf as leaves

_DECISIONS = (
    leaves.UpdateProposedLeaf
    | leaves.UpdateApprovedLeaf
    | leaves.UpdateCancelledLeaf
    | leaves.PackagesUpdatedLeaf
)


_T = TypeVar("_T")


class Fact(NamedTuple):
    """A count of events in the audit report, and a remark for auditors."""

    figure: str
    remark: str


def facts_of(verified: Verified) -> Iterator[Fact]:
    """Yield the facts about a verified evidence file, the most important fact first."""
    entries = verified.entries
    yield Fact(_counted(len(entries), "entry", "entries"), _completeness(entries))
    yield _updates(entries)
    yield _decisions(entries)
    yield _starts(entries)
    holders = _leaves(entries, leaves.RecoveredLeaf)
    if holders:
        recovered = _counted(len(holders), "entry", "entries")
        yield Fact(f"recovered: {recovered}", "The coordinator claims which holders took part.")
    trust = _leaves(entries, leaves.TrustLeaf)
    if revoked := sum(each.what == leaves.TrustChange.REVOKED for each in trust):
        yield Fact(
            _counted(revoked, "revocation", "revocations"),
            "The coordinator claims which user revoked which workloads.",
        )
    uploads = _leaves(entries, leaves.SecretsUploadedLeaf)
    if uploads:
        yield Fact(
            _counted(sum(len(each.uploads) for each in uploads), "upload of", "uploads of")
            + " secrets",
            "The coordinator claims which user uploaded which secret.",
        )


def _completeness(entries: tuple[Judged, ...]) -> str:
    hidden = sum(each.leaf is None for each in entries)
    if hidden:
        return f"The history is complete. {hidden} of the entries are hidden."
    return "The history is complete: no entry is left out or hidden."


def _updates(entries: tuple[Judged, ...]) -> Fact:
    applied = len(_leaves(entries, leaves.ManifestUpdatedLeaf))
    cancelled = len(_leaves(entries, leaves.UpdateCancelledLeaf))
    raised = len(_leaves(entries, leaves.PackagesUpdatedLeaf))
    remark = f"{_counted(raised, 'update', 'updates')} of package versions alone"
    remark += f", {cancelled} cancelled." if cancelled else ", none cancelled."
    return Fact(_counted(applied, "change of the rules", "changes of the rules"), remark)


def _decisions(entries: tuple[Judged, ...]) -> Fact:
    decisions = [each for each in entries if isinstance(each.leaf, _DECISIONS) and each.leaf.user]
    signed = sum(Gap.NOT_SIGNED not in each.gaps for each in decisions)
    if not decisions:
        return Fact("no decision of a user", "Nobody has proposed a change.")
    remark = "Each was verified with the key of the user's certificate."
    if signed < len(decisions):
        remark = "For the others, only the coordinator says that the user agreed."
    return Fact(f"{signed} of {len(decisions)} decisions signed", remark)


def _starts(entries: tuple[Judged, ...]) -> Fact:
    starts = _leaves(entries, leaves.StartedLeaf)
    changed = sum(
        is_other_code(each.leaf, entries[index - 1].after)
        for index, each in enumerate(entries)
        if each.leaf is not None and index
    )
    remark = "Each start was of the same code." if len(starts) > 1 else "The entry names its code."
    if changed:
        remark = f"The code changed {_counted(changed, 'time', 'times')}: see the entries."
    return Fact(_counted(len(starts), "start", "starts"), remark if starts else "None is recorded.")


def _leaves(entries: tuple[Judged, ...], kind: type[_T]) -> list[_T]:
    return [each.leaf for each in entries if isinstance(each.leaf, kind)]


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
