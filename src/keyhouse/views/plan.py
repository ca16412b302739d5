"""Describe the plan of an update for its reviewers."""

from collections.abc import Sequence
from typing import Final

from keyhouse.views.changes import Sign, SignedChange, Summary
from keyhouse.views.visible import listed
from keyhouse.wire.plan import Plan, PlanChange, PlanData

_COMES: Final = frozenset({"added", "gained", "opened", "given"})
_GOES: Final = frozenset({"removed", "lost", "closed"})
_DANGERS: Final = frozenset({"value-lost", "derived-keys-changed", "limit-reached"})
"""Kinds of changes with a loss of data, or of access for workloads."""


def signed(change: PlanChange) -> SignedChange:
    """Return ``change`` with its sign: + for an addition, - for a removal, else ~.

    The last word of ``change.what`` decides. So kinds of changes from newer versions work, too.
    """
    word = change.what.rpartition("-")[2]
    sign: Sign = "+" if word in _COMES else "-" if word in _GOES else "~"
    return SignedChange(change.section, sign, change.text)


def harmless(plan: Plan) -> list[PlanChange]:
    """Return the changes of ``plan`` except those in ``danger_texts``."""
    return [each for each in plan.changes if each.what not in _DANGERS]


def danger_texts(plan: Plan) -> list[str]:
    """Return sentences about the changes of ``plan`` with a loss that no later update can undo."""
    return [each.text for each in plan.changes if each.what in _DANGERS]


def summary(changes: Sequence[PlanChange]) -> Summary:
    """Count the changes by their signs. Lost values of secrets have a count of their own."""
    signs = [signed(each).sign for each in changes if each.what not in _DANGERS]
    lost = sum(each.what == "value-lost" for each in changes)
    return Summary(signs.count("+"), signs.count("-"), signs.count("~"), lost)


def agreement(data: PlanData) -> str:
    """Return a sentence about the users who must agree to the plan in ``data``."""
    plan = data.plan
    if not plan.needed:
        return "nobody else has to agree"
    text = f"{plan.needed} of {listed(plan.users)}"
    if data.acknowledged:
        text += f"; {listed(data.acknowledged)} agreed already"
    return text
