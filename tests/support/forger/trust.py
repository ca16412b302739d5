"""Histories with revocations and changes of marble roots: true histories and forgeries."""

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

from keyhouse.evidence.gaps import Gap
from keyhouse.transparency.leaf import hidden_in_leaf
from support.evidence import GOLDEN, Maker, Said
from support.forger.draft import Draft
from support.forger.honest import Coordinator, certificate_of
from support.forger.rare import Rare, begun, hide
from support.samples.deployment import user
from support.samples.updates import together

__all__ = ["RECORDED", "TRUST", "TRUST_FORGERIES"]

RECORDED: Final = GOLDEN.with_name("golden_trust")
"""A recorded file with revocations and marble roots. Each later version must accept the file."""

UUID: Final = hidden_in_leaf("11111111-1111-4111-8111-111111111111")
PLATFORM: Final = hidden_in_leaf("a3" * 16)
ROOTS: Final = ("1" * 64, "2" * 64, "3" * 64)
END: Final = 1_900_000_000_000_000
_LONG: Final = "w" * 600


def living_manifest(word: str = "", *types: str) -> bytes:
    """Return a manifest: ``guard`` may revoke ``types``, ``porter`` may revoke the type ``app``."""

    def change(found: dict[str, Any]) -> None:
        marbles = found["Marbles"] | dict.fromkeys(types, found["Marbles"]["app"])
        found["Marbles"] = {name: {**each, "Renewal": {}} for name, each in marbles.items()}
        for name, revocable in (("guard", [*marbles]), ("porter", ["app"])):
            found["Users"][name] = {
                "Certificate": user(name).pem.decode(),
                "Roles": [name],
            }
            found["Roles"][name] = {
                "ResourceType": "Marbles",
                "ResourceNames": revocable,
                "Actions": ["RevokeWorkload"],
            }

    return together(change, word=word, UpdateThreshold=1)


def revoke(made: Coordinator, *subject: str, by: str = "guard", **changed: object) -> None:
    """Append a revocation of ``subject``."""
    fields: Said = {
        "what": "revoked",
        "user": by,
        "certificate": certificate_of(by),
        "subjects": [list(subject)],
    }
    made.say("trust", **{**fields, **changed})


def roots(made: Coordinator, in_force: str, **former: int) -> None:
    """Append the marble root ``in_force``, and the former roots with their end times."""
    older = [["former", root.removeprefix("r"), str(end)] for root, end in former.items()]
    made.say(
        "trust", what="roots", user="", certificate="", subjects=[["in-force", in_force], *older]
    )


def _begun(maker: Maker, chance: Random, *, signed: bool = False) -> Coordinator:
    """Return a log that begins with ``living_manifest``."""
    return begun(maker, chance, "new", living_manifest("first", "web", _LONG), signed=signed)


def _update(made: Coordinator, word: str = "then", *, signed: bool = False) -> None:
    """Append an update of the manifest, without the leaf of its marble roots."""
    base, made.raw = made.manifest, living_manifest(word, "web")
    named = made.draft.add(made.raw)
    by: Said = {"user": "alice", "certificate": certificate_of("alice"), "plan": ""}
    by["approval"] = None if signed else ""
    if not signed:
        made.draft.gaps.add(Gap.NOT_SIGNED)
    made.say("update-proposed", **by, base=base, manifest=named, needed=1, public=True)
    made.take_effect("manifest-updated", base=base)


def _revocations(maker: Maker, chance: Random) -> Draft:
    made = _begun(maker, chance)
    revoke(made, "workload", "web", UUID)
    revoke(made, "type", "app", by="porter")
    revoke(made, "type", hidden_in_leaf(_LONG))
    revoke(made, "platform", PLATFORM)
    revoke(made, "platform", PLATFORM)
    made.upload()
    return made.draft


def _roots(maker: Maker, chance: Random) -> Draft:
    made = _begun(maker, chance)
    _update(made, "1")
    roots(made, ROOTS[0])
    _update(made, "2")
    roots(made, ROOTS[1], **{f"r{ROOTS[0]}": END})
    revoke(made, "type", "web")
    _update(made, "3")
    roots(made, ROOTS[2], **{f"r{ROOTS[0]}": END - 1, f"r{ROOTS[1]}": END})
    return made.draft


def _roots_of_versions(maker: Maker, chance: Random) -> Draft:
    """Return marble roots after package updates. Older versions log no roots."""
    made = _begun(maker, chance)
    made.raise_versions()
    made.raise_versions()
    roots(made, ROOTS[0])
    made.anchor()
    made.raise_versions()
    made.anchor()
    _update(made, "1")
    roots(made, ROOTS[2], **{f"r{ROOTS[1]}": END})
    made.draft.gaps.add(Gap.NOT_SIGNED)
    for each in made.draft.said:
        if each["kind"] == "packages-updated":
            each["approval"] = ""
    return made.draft


def _roots_at_the_beginning(maker: Maker, chance: Random) -> Draft:
    made = begun(maker, chance, "replaces", living_manifest("first"), signed=False)
    (start,) = made.draft.of("started")
    roots(made, ROOTS[0], **{f"r{ROOTS[1]}": END})
    made.draft.said.insert(start, made.draft.said.pop())
    made.draft.said[start + 1]["time"] = made.draft.said[start]["time"]
    _update(made)
    roots(made, ROOTS[2], **{f"r{ROOTS[1]}": END, f"r{ROOTS[0]}": END})
    return made.draft


def _unknown(maker: Maker, chance: Random) -> Draft:
    made = _begun(maker, chance)
    made.say("trust", what="lifted", user="guard", certificate="", subjects=[["type", "web", "7"]])
    made.say("trust", what="rotated", user="", certificate="", subjects=[])
    made.draft.gaps.add(Gap.TRUST_UNKNOWN)
    return made.draft


def _unknown_rights(maker: Maker, chance: Random) -> Draft:
    raw = living_manifest("first").replace(
        b'"note": {"Type": "plain"', b'"note": {"Private": "YQ==", "Type": "plain"'
    )
    assert json.loads(raw)["Secrets"]["note"]["Private"]
    made = begun(maker, chance, raw=raw, signed=False)
    made.draft.said[1]["public"] = False
    made.draft.lost.add(made.manifest)
    revoke(made, "type", "app", by="mallory")
    made.draft.gaps |= {Gap.MANIFEST_NOT_PUBLIC, Gap.RIGHTS_UNKNOWN}
    return made.draft


def _hidden_roots(maker: Maker, chance: Random) -> Draft:
    made = _begun(maker, chance)
    _update(made, "1")
    roots(made, ROOTS[0])
    made.draft.changes.append(hide(len(made.draft.said) - 1))
    made.draft.gaps.add(Gap.HIDDEN_ENTRY)
    _update(made, "2")
    roots(made, ROOTS[2], **{f"r{ROOTS[1]}": END})
    return made.draft


def recorded(maker: Maker) -> Draft:
    """Return the history of the recorded file, without a gap."""
    made = _begun(maker, Random(1), signed=True)  # noqa: S311 the choices of a history
    roots(made, ROOTS[0])
    made.draft.said.insert(2, made.draft.said.pop())  # directly after the first manifest
    made.draft.said[2]["time"] = made.draft.said[1]["time"]
    revoke(made, "workload", "web", UUID)
    revoke(made, "platform", PLATFORM)
    _update(made, signed=True)
    roots(made, ROOTS[1], **{f"r{ROOTS[0]}": END})
    made.draft.milestones = {4, 7}
    return made.draft


TRUST: Final[dict[str, Rare]] = {
    "revocations of each kind": _revocations,
    "changes of the marble roots": _roots,
    "marble roots behind package updates": _roots_of_versions,
    "marble roots at the beginning of a log": _roots_at_the_beginning,
    "changes of trust of unknown kinds": _unknown,
    "a revocation under a manifest that is not in the file": _unknown_rights,
    "hidden marble roots": _hidden_roots,
}


def _revoked(*subject: str, by: str = "guard", **changed: object) -> Rare:
    """Return a history that ends with this revocation."""

    def forge(maker: Maker, chance: Random) -> Draft:
        made = _begun(maker, chance)
        revoke(made, *subject, by=by, **changed)
        return made.draft

    return forge


def _changed(name: str, change: Callable[[Draft], object]) -> Rare:
    def forge(maker: Maker, chance: Random) -> Draft:
        draft = TRUST[name](maker, chance)
        change(draft)
        return draft

    return forge


def _last(*subjects: list[str], **changed: object) -> Rare:
    """Return the true changes of roots, with these ``subjects`` in the last leaf."""

    def change(draft: Draft) -> None:
        fields = {**({"subjects": list(subjects)} if subjects else {}), **changed}
        draft.said[-1].update(fields)

    return _changed("changes of the marble roots", change)


def _moved(maker: Maker, chance: Random) -> Draft:
    """Return a history with new marble roots, but without a change of the rules."""
    made = _begun(maker, chance)
    made.upload()
    roots(made, ROOTS[0])
    return made.draft


def _twice(draft: Draft) -> None:
    draft.said.append(dict(draft.said[-1]))


def _between(maker: Maker, chance: Random) -> Draft:
    """Return a history with a revocation between the last agreement and its update."""
    made = _begun(maker, chance)
    _update(made)
    revoke(made, "type", "web")
    said = made.draft.said
    said[-1]["time"] = said[-2]["time"]
    said[-1], said[-2] = said[-2], said[-1]
    return made.draft


_FORCED: Final = ["in-force", ROOTS[2]]
_NEW: Final = "4" * 64

TRUST_FORGERIES: Final[dict[str, Rare]] = {
    "a revocation by a user without the right": _revoked("type", "web", by="alice"),
    "a revocation of another type": _revoked("type", "web", by="porter"),
    "a revocation of a workload of another type": _revoked("workload", "web", UUID, by="porter"),
    "a revocation of a platform without the right to each type": _revoked(
        "platform", PLATFORM, by="porter"
    ),
    "a revocation of an unknown type": _revoked("type", "other"),
    "a revocation of a secret": _revoked("type", "note"),
    "a revocation by a stranger": _revoked("type", "web", by="mallory"),
    "a revocation by nobody": _revoked("type", "web", user="", certificate=""),
    "a revocation with another certificate": _revoked("type", "web", certificate="0" * 64),
    "a revocation of an unknown scope": _revoked("package", "app"),
    "a revocation of a type with a UUID": _revoked("type", "web", UUID),
    "a revocation of a workload without a UUID": _revoked("workload", "web"),
    "a revocation of a UUID in the clear": _revoked("workload", "web", "1" * 36),
    "a revocation of a platform in the clear": _revoked("platform", "a3" * 16),
    "a revocation of nothing": _revoked(subjects=[]),
    "a revocation of two types": _revoked(subjects=[["type", "web"], ["type", "app"]]),
    "a revocation of an empty subject": _revoked(subjects=[[]]),
    "a revocation of a name like a hash": _revoked("type", "sha256:web"),
    "a revocation before an update with enough agreements": _between,
    "a change of trust without a kind": _revoked("type", "web", what=""),
    "a change of trust of a kind in capitals": _revoked("type", "web", what="Revoked"),
    "marble roots without a change of the rules": _moved,
    "marble roots twice": _changed("changes of the marble roots", _twice),
    "a new former root": _last(_FORCED, ["former", _NEW, str(END)]),
    "a former root for a longer time": _last(
        _FORCED, ["former", ROOTS[0], str(END + 1)], ["former", ROOTS[1], str(END)]
    ),
    "a former root twice": _last(
        _FORCED, ["former", ROOTS[1], str(END)], ["former", ROOTS[1], str(END)]
    ),
    "a former root in force": _last(_FORCED, ["former", ROOTS[2], str(END)]),
    "a former root without an end": _last(_FORCED, ["former", ROOTS[1]]),
    "a former root with the end 0": _last(_FORCED, ["former", ROOTS[1], "0"]),
    "a former root with an end of 17 digits": _last(_FORCED, ["former", ROOTS[1], "1" * 17]),
    "no root in force": _last(["former", ROOTS[1], str(END)]),
    "two roots in force": _last(_FORCED, ["in-force", ROOTS[1]]),
    "a root in force with an end": _last(["in-force", ROOTS[2], str(END)]),
    "a root that is not a hash": _last(["in-force", "2" * 63]),
    "no root at all": _last(subjects=[]),
    "five former roots": _last(
        _FORCED, *(["former", f"{number}" * 64, str(END)] for number in (0, 1, 2, 5, 6))
    ),
    "marble roots by a user": _last(user="alice", certificate=certificate_of("alice")),
}  # fmt: skip


if __name__ == "__main__":
    from support.forger import file_of

    MAKER: Final = Maker()
    RECORDED.mkdir(exist_ok=True)
    MAKER.write_trusted(RECORDED)
    (RECORDED / "deployment.evidence.json").write_bytes(file_of(MAKER, recorded(MAKER)))
