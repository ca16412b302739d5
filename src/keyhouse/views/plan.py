"""The plan of an update as people review it."""

from collections.abc import Sequence
from typing import Final

from keyhouse.views.changes import Sign, SignedChange, Summary
from keyhouse.wire.plan import Plan, PlanChange, PlanData

_COMES: Final = frozenset({"added", "gained", "opened", "given"})
_GOES: Final = frozenset({"removed", "lost", "closed"})
_DANGERS: Final = frozenset({"value-lost", "derived-keys-changed", "limit-reached"})
"""Changes that lose data, or lock workloads out."""


def signed(change: PlanChange) -> SignedChange:
    """Return ``change`` with its sign. Words that a newer coordinator has get a sign, too."""
    word = change.what.rpartition("-")[2]
    sign: Sign = "+" if word in _COMES else "-" if word in _GOES else "~"
    return SignedChange(change.section, sign, change.text)


def harmless(plan: Plan) -> list[PlanChange]:
    """Return the changes that can be undone."""
    return [each for each in plan.changes if each.what not in _DANGERS]


def danger_texts(plan: Plan) -> list[str]:
    """Return what cannot be undone, in sentences."""
    return [each.text for each in plan.changes if each.what in _DANGERS]


def summary(changes: Sequence[PlanChange]) -> Summary:
    """Count entries by what happens to them; what follows from that is not counted again."""
    added = {(each.section, each.name) for each in changes if each.what.endswith("-added")}
    removed = {(each.section, each.name) for each in changes if each.what.endswith("-removed")}
    named = {(each.section, each.name) for each in changes}
    lost = sum(each.what == "value-lost" for each in changes)
    return Summary(len(added), len(removed), len(named - added - removed), lost)


def agreement(found: PlanData) -> str:
    """Return who has to agree, and who has, in words."""
    plan = found.plan
    if not plan.needed:
        return "nobody else has to agree"
    text = f"{plan.needed} of {', '.join(plan.users)}"
    if found.acknowledged:
        text += f"; {', '.join(found.acknowledged)} agreed already"
    return text
