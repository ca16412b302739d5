"""Approvals that a user did not give: a coordinator or a different user with a key made them."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from random import Random
from typing import Any, Final

from keyhouse.transparency.approval import DecisionKind, TreeHead
from support.evidence import Said
from support.forger.draft import DECISIONS, Draft
from support.forger.kind import Kind, at_a_leaf

__all__ = ["APPROVALS"]

Change = Callable[[Draft, int, Said, Random], Any]
_OTHER: Final = "0" * 64
_FIRST: Final = ("log-begun", "manifest-set")


def _payload(**fields: Any) -> Change:
    """Return a change: the user signs different ``fields`` of the approval."""

    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> bool:
        if leaf["approval"] is not None or not leaf["user"]:
            return False
        if fields.get("decision") == DECISIONS[leaf["kind"]]:
            return False
        leaf["_approval"] = fields
        return True

    return change


def _envelope(rewrite: Callable[[dict[str, Any]], Any]) -> Change:
    """Return a change of the signed envelope."""

    def rewritten(raw: bytes) -> bytes:
        document = json.loads(raw)
        text = rewrite(document)
        return text if isinstance(text, bytes) else _json(document)

    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> bool:
        if leaf["approval"] is not None:
            return False
        leaf["_envelope"] = rewritten
        return True

    return change


def _json(document: object) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def _head_before(draft: Draft, place: int, leaf: Said, chance: Random) -> bool:
    """Have the user sign a head before the last decision, with an invented root."""
    del chance
    decided = [each for each in draft.of(*DECISIONS, *_FIRST, "manifest-updated") if each < place]
    decided = [each for each in decided if draft.said[each]["kind"] != "update-approved"]
    if leaf["approval"] is not None or not decided:
        return False
    leaf["_approval"] = {"head": TreeHead(decided[-1], _OTHER)}
    return True


def _seen_before(decision: str) -> Change:
    """Return a change: the user signs a true head without the last decision, of this kind."""

    def change(draft: Draft, place: int, leaf: Said, _chance: Random) -> bool:
        deciding = {*DECISIONS, *_FIRST, "manifest-updated"} - {"update-approved"}
        before = [n for n in draft.of(*deciding) if n < place]
        if leaf["approval"] is not None or not before:
            return False
        leaf["_at"] = before[-1]
        return bool(draft.said[before[-1]]["kind"] == decision)

    return change


def _of_other(_draft: Draft, place: int, leaf: Said, _chance: Random) -> bool:
    """Name the approval of an earlier leaf."""
    before = [n for n in _draft.of(*DECISIONS) if n < place and _draft.said[n]["approval"] is None]
    if not before:
        return False
    leaf["approval"] = len(before) - 1
    return True


def _signer(name: str) -> Change:
    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> bool:
        if leaf["user"] == name or leaf["approval"] is not None:
            return False
        leaf["_signer"] = name
        return True

    return change


def _plan(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
    leaf["_approval"] = {"plan": "c" * 64}


def _versions(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
    """State a higher version than the signed version."""
    leaf["versions"] = [["app", str(int(leaf["versions"][0][1]) + 1)]]


def _no_update(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
    """Have the user sign a package update that the file lacks."""
    leaf["_update"] = _OTHER


def _manifest_as_update(draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
    leaf["_update"] = draft.add(b'{"Packages": []}')


def _approval_is(name: str) -> Change:
    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
        leaf["approval"] = name

    return change


def _manifest_as_approval(draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
    leaf["approval"] = next(iter(draft.objects))


def _flip(text: str) -> str:
    raw = bytearray(b64decode(text))
    raw[len(raw) // 2] ^= 1
    return b64encode(raw).decode()


def _damaged(document: dict[str, Any]) -> None:
    document["signatures"][0]["sig"] = _flip(document["signatures"][0]["sig"])


def _altered(document: dict[str, Any]) -> None:
    payload = b64decode(document["payload"]).replace(b'"time":', b'"time":1')
    document["payload"] = b64encode(payload).decode()


_EVERY: Final[dict[str, Change]] = {
    "none": _approval_is(""),
    "that is missing": _approval_is(_OTHER),
    "that is a manifest": _manifest_as_approval,
    "of another leaf": _of_other,
    "signed by another updater": _signer("carol"),
    "signed by a writer": _signer("writer"),
    "signed by a stranger": _signer("mallory"),
    "for another log": _payload(origin="log.example.org/other"),
    "for another deployment": _payload(root=_OTHER),
    "on another manifest": _payload(base=_OTHER),
    "by another user": _payload(user="mallory"),
    "at a head that never was": _payload(head=TreeHead(2, _OTHER)),
    "at a head of the future": _payload(head=TreeHead(9_999, _OTHER)),
    "at a head of nothing": _payload(head=TreeHead(0, _OTHER)),
    "at a head before the last decision": _head_before,
    "with a damaged signature": _envelope(_damaged),
    "with an altered payload": _envelope(_altered),
    "with two signatures": _envelope(lambda found: found["signatures"].append({"sig": "AAAA"})),
    "with no signature": _envelope(lambda found: found["signatures"].clear()),
    "with a key id": _envelope(lambda found: found["signatures"][0].update(keyid="a")),
    "of another type": _envelope(lambda found: found.update(payloadType="text/plain")),
    "with an unknown field": _envelope(lambda found: found.update(more=1)),
    "with spaces": _envelope(lambda found: json.dumps(found).encode()),
    "with a newline": _envelope(lambda found: _json(found) + b"\n"),
    "that is empty": _envelope(lambda _: b""),
}
_KINDS: Final = {
    "update-proposed": "a proposal",
    "update-approved": "an agreement",
    "update-cancelled": "a cancellation",
    "packages-updated": "a package update",
}

APPROVALS: Final = [
    *(
        Kind(f"approval of {words}: {name}", "coordinator", at_a_leaf((kind,), change))
        for kind, words in _KINDS.items()
        for name, change in _EVERY.items()
    ),
    *(
        Kind(
            f"approval of {words}: to {decision}", "user",
            at_a_leaf((kind,), _payload(decision=decision)),
        )
        for kind, words in _KINDS.items()
        for decision in DecisionKind
        if decision != DECISIONS[kind]
    ),
    *(
        Kind(
            f"approval of {words}: of another manifest", "user",
            at_a_leaf((kind,), _payload(manifest=_OTHER)),
        )
        for kind, words in _KINDS.items()
    ),
    *(
        Kind(
            f"approval of a decision: at a head before the last {decision}", "user",
            at_a_leaf(tuple(_KINDS), _seen_before(decision)),
        )
        for decision in (*_KINDS, "manifest-set", "manifest-updated")
        if decision != "update-approved"
    ),
    *(
        Kind(f"approval of {words}: of another plan", "user", at_a_leaf((kind,), _plan))
        for kind, words in _KINDS.items()
        if kind != "update-cancelled"
    ),
    Kind(
        "approval of a package update: of other versions", "coordinator",
        at_a_leaf(("packages-updated",), _versions),
    ),
    Kind(
        "approval of a package update: the update is missing", "coordinator",
        at_a_leaf(("packages-updated",), _no_update),
    ),
    Kind(
        "approval of a package update: the update is something else", "coordinator",
        at_a_leaf(("packages-updated",), _manifest_as_update),
    ),
]  # fmt: skip
