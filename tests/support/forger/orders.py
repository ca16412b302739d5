"""Omitted, repeated, moved and invented leaves, by the holder of the coordinator's keys."""

import copy
from collections.abc import Callable
from random import Random
from typing import Any, Final

from support.evidence import Said
from support.forger.draft import Draft
from support.forger.honest import certificate_of, manifest_like
from support.forger.kind import Forge, Kind, at_a_leaf
from support.samples.updates import raise_version

__all__ = ["ORDERS"]

_OTHER: Final = "0" * 64


def _without(kind: str, *, suits: Callable[[Draft, int], bool] = lambda *_: True) -> Forge:
    def forge(draft: Draft, chance: Random) -> bool:
        places = [each for each in draft.of(kind) if suits(draft, each)]
        if not places:
            return False
        del draft.said[chance.choice(places)]
        return True

    return forge


def _twice(kind: str) -> Forge:
    def forge(draft: Draft, chance: Random) -> bool:
        places = draft.of(kind)
        if not places:
            return False
        place = chance.choice(places)
        draft.said.insert(place + 1, copy.copy(draft.said[place]))
        return True

    return forge


def _swapped(kind: str) -> Forge:
    """Return a forgery: exchange a leaf of ``kind`` and the preceding leaf."""

    def forge(draft: Draft, chance: Random) -> bool:
        places = [each for each in draft.of(kind) if each > 0]
        if not places:
            return False
        place = chance.choice(places)
        said = draft.said
        said[place - 1], said[place] = said[place], said[place - 1]
        first, second = said[place - 1], said[place]
        first["time"] = second["time"]
        return True

    return forge


def _cut(kind: str, *, after: bool) -> Forge:
    """Return a forgery: end the log ``after`` the last leaf of ``kind``, or before this leaf."""

    def forge(draft: Draft, chance: Random) -> bool:
        del chance
        places = draft.of(kind)
        if not places:
            return False
        del draft.said[places[-1] + after :]
        return True

    return forge


def _inserted(leaf: Callable[[Draft, int], Said | None], *, while_pending: bool = False) -> Forge:
    """Return a forgery: insert an invented leaf at a random place after the first start."""

    def forge(draft: Draft, chance: Random) -> bool:
        places = _pending(draft) if while_pending else range(3, len(draft.said) + 1)
        tried = list(places)
        chance.shuffle(tried)
        for place in tried:
            if (found := leaf(draft, place)) is not None:
                found["time"] = draft.said[place - 1]["time"]
                found["v"] = 1
                draft.said.insert(place, found)
                return True
        return False

    return forge


def _pending(draft: Draft) -> list[int]:
    """Return the places at which an update is pending."""
    found, pending = [], False
    for place, leaf in enumerate(draft.said):
        if pending:
            found.append(place)
        if leaf["kind"] == "update-proposed":
            pending = leaf["needed"] > 1
        elif leaf["kind"] in {"update-cancelled", "manifest-updated"} or not leaf.get("missing", 1):
            pending = False
    return found


def _settled(draft: Draft, place: int) -> bool:
    """Return whether a leaf may stand at ``place``: no update or recovery is incomplete."""
    before = draft.said[place - 1]
    enough = (before["kind"] == "update-approved" and before["missing"] == 0) or (
        before["kind"] == "update-proposed" and before["needed"] == 1
    )
    return not enough and before["kind"] != "recovered" and place not in _pending(draft)


def _in_force(draft: Draft, place: int) -> str:
    """Return the manifest in force before ``place``."""
    kinds = {"manifest-set", "manifest-updated"}
    return next(
        str(each["manifest"]) for each in draft.said[place - 1 :: -1] if each["kind"] in kinds
    )


def _by(name: str, **fields: Any) -> Said:
    return {"user": name, "certificate": certificate_of(name), **fields}


def _update_of(name: str) -> Callable[[Draft, int], Said | None]:
    """Return a function: invent a proposal by ``name`` without further agreements."""

    def leaf(draft: Draft, place: int) -> Said | None:
        if not _settled(draft, place):
            return None
        manifest = draft.add(manifest_like("a forgery", 1))
        who = _by(name, plan="", approval=None)
        base = _in_force(draft, place)
        return {
            "kind": "update-proposed", **who, "base": base, "manifest": manifest, "needed": 1,
            "public": True,
        }  # fmt: skip

    return leaf


def _took_effect(draft: Draft, place: int) -> Said | None:
    if not _settled(draft, place):
        return None
    manifest = draft.add(manifest_like("a forgery", 1))
    mine = next(each["intermediate"] for each in draft.said if "intermediate" in each)
    return {
        "kind": "manifest-updated", "base": _in_force(draft, place), "manifest": manifest,
        "intermediate": mine, "recovery": None, "public": True,
    }  # fmt: skip


def _packages(draft: Draft, place: int) -> Said:
    mine = next(each["intermediate"] for each in draft.said if "intermediate" in each)
    update = draft.add(raise_version(90))
    return {
        "kind": "packages-updated", **_by("releaser", plan="", approval=None), "_update": update,
        "base": _in_force(draft, place), "versions": [["app", "90"]], "intermediate": mine,
    }  # fmt: skip


def _cancelled(user: str, approval: str | None) -> Callable[[Draft, int], Said | None]:
    def leaf(draft: Draft, place: int) -> Said | None:
        proposals = [each for each in draft.said[:place] if each["kind"] == "update-proposed"]
        if not proposals:
            return None
        who = _by(user) if user else {"user": "", "certificate": ""}
        base = _in_force(draft, place)
        named = proposals[-1]["manifest"]
        return {
            "kind": "update-cancelled", **who, "manifest": named, "approval": approval,
            "_base": base,
        }  # fmt: skip

    return leaf


def _ended(leaf: Callable[[Draft, int], Said | None]) -> Forge:
    """Return a forgery: end the log during a pending update, with an invented ``leaf``."""

    def forge(draft: Draft, chance: Random) -> bool:
        places = _pending(draft)
        if not places:
            return False
        place = chance.choice(places)
        if draft.said[place - 1]["kind"] == "recovered":
            return False
        found = leaf(draft, place)
        if found is None:
            return False
        del draft.said[place:]
        draft.said.append({**found, "time": draft.said[-1]["time"], "v": 1})
        return True

    return forge


def _approved_again(draft: Draft, place: int) -> Said | None:
    """Return a second agreement of the proposer, counted as the agreement of a different user."""
    said = draft.said[:place]
    proposal = next((each for each in said[::-1] if each["kind"] == "update-proposed"), None)
    if proposal is None:
        return None
    start = said.index(proposal)
    agreed = {each["user"] for each in said[start:] if each["kind"] == "update-approved"}
    missing = proposal["needed"] - len(agreed | {proposal["user"]}) - 1
    return {
        "kind": "update-approved", **_by(proposal["user"], plan="", approval=None),
        "manifest": proposal["manifest"], "missing": max(missing, 0), "_base": proposal["base"],
    }  # fmt: skip


def _has_approvals(draft: Draft, place: int) -> bool:
    """Return whether an agreement, a cancellation or an update follows the leaf at ``place``."""
    later = [each["kind"] for each in draft.said[place + 1 :]]
    return bool({"update-approved", "update-cancelled", "manifest-updated"} & set(later))


def _first_of_more(draft: Draft, place: int) -> bool:
    """Return whether this is the user's first agreement, and an agreement or update follows."""
    user = draft.said[place]["user"]
    agreed = [
        each["user"]
        for each in draft.said[:place]
        if each["kind"] in {"update-approved", "update-proposed"}
        and each["manifest"] == draft.said[place]["manifest"]
    ]
    later = {each["kind"] for each in draft.said[place + 1 :]}
    return user not in agreed and bool({"manifest-updated", "update-approved"} & later)


def _is_followed(draft: Draft, place: int) -> bool:
    """Return whether a later leaf names the new manifest as its base."""
    later = draft.said[place + 1 :]
    new = draft.said[place]["manifest"]
    is_other = bool(draft.said[place]["base"] != new)
    return is_other and any(each.get("base") == new for each in later)


def _recovered_after(draft: Draft, place: int) -> bool:
    return bool(draft.said[place - 1]["kind"] == "recovered")


_EVERY: Final = (
    *("log-begun", "manifest-set", "started", "recovered", "update-proposed"),
    *("manifest-updated", "anchor", "update-cancelled"),
)

_FORGERIES: Final[dict[str, Forge]] = {
    "no beginning": _without("log-begun"),
    "no first manifest": _without("manifest-set"),
    "no proposal": _without("update-proposed", suits=_has_approvals),
    "no agreement": _without("update-approved", suits=_first_of_more),
    "no leaf of an update": _without("manifest-updated", suits=_is_followed),
    "no start after a recovery": _without("started", suits=_recovered_after),
    **{f"twice: {kind}": _twice(kind) for kind in _EVERY},
    "before the beginning: manifest": _swapped("manifest-set"),
    "too early: update": _swapped("manifest-updated"),
    "the log ends before an update": _cut("manifest-updated", after=False),
    "the log ends after a recovery": _cut("recovered", after=True),
    "an update by a stranger": _inserted(_update_of("mallory")),
    "an update by a writer": _inserted(_update_of("writer")),
    "a manifest that nobody proposed": _inserted(_took_effect),
    "versions raised while an update is pending": _inserted(_packages, while_pending=True),
    "cancelled by nobody": _ended(_cancelled("", "")),
    "cancelled by nobody, with an approval that is missing": _ended(_cancelled("", _OTHER)),
    "cancelled with an approval that is missing": _ended(_cancelled("alice", _OTHER)),
    "cancelled without an approval": _ended(_cancelled("alice", "")),
    "cancelled by a stranger": _ended(_cancelled("mallory", None)),
    "cancelled by a writer": _ended(_cancelled("writer", None)),
    "a proposer agrees as another": _inserted(_approved_again, while_pending=True),
    "a second proposal": _inserted(
        lambda draft, place: {
            "kind": "update-proposed", **_by("alice", plan="", approval=None), "needed": 2,
            "base": _in_force(draft, place), "public": True,
            "manifest": draft.add(manifest_like("a forgery", 1)),
        },
        while_pending=True,
    ),
    "a second first manifest": _inserted(
        lambda draft, place: {
            "kind": "manifest-set", "manifest": _in_force(draft, place), "recovery": None,
            "intermediate": draft.said[1]["intermediate"], "public": True,
        }
    ),
    "a second beginning": _inserted(lambda draft, _: copy.copy(draft.said[0])),
    "a start before the manifest": at_a_leaf(
        ("manifest-set",), lambda draft, place, leaf, _: draft.said.insert(place, dict(leaf))
    ),
    "a recovery without a start": _inserted(
        lambda draft, place: (
            {"kind": "recovered", "at": f"1.99.{_OTHER}", "holders": ["rk0", "rk1"]}
            if _settled(draft, place)
            else None
        )
    ),
    "an unknown kind": _inserted(lambda _, __: {"kind": "forgotten"}),
    "an empty leaf": _inserted(lambda _, __: {"kind": "anchor"}),
    "an agreement that nobody waits for": _inserted(
        lambda draft, place: (
            {
                "kind": "update-approved", **_by("alice", plan="", approval=None), "missing": 0,
                "manifest": _in_force(draft, place), "_base": _in_force(draft, place),
            }
            if _settled(draft, place)
            else None
        )
    ),
    "a cancellation of nothing": _inserted(
        lambda draft, place: (
            {
                "kind": "update-cancelled", **_by("alice", approval=None),
                "manifest": _in_force(draft, place), "_base": _in_force(draft, place),
            }
            if _settled(draft, place)
            else None
        )
    ),
}  # fmt: skip

ORDERS: Final = [Kind(f"order: {name}", "coordinator", made) for name, made in _FORGERIES.items()]
