"""True histories with a gap, a key, a pin or a rule that random histories lack."""

import gzip
import json
from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from keyhouse.attestation import TcbStatus
from keyhouse.evidence.bundle import Entry, Evidence, Hidden
from keyhouse.evidence.gaps import Gap
from keyhouse.transparency.keys import ED25519, VerifierKey
from keyhouse.transparency.leaf import name_in_leaf, object_name
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.tree import Frontier, leaf_hash
from keyhouse_simulation import COORDINATOR, QuoteParameters, TcbInfo
from keyhouse_simulation.attestation_file import write_expected_identity
from support.evidence import BEGUN, Maker, Said
from support.forger.draft import Draft, cosigned
from support.forger.honest import Coordinator, manifest_like
from support.samples.deployment import KEYS
from support.samples.updates import together

__all__ = ["OLDER_CODE", "RARE", "Rare", "begun", "hide", "packages_in_two_leaves", "several"]

Rare = Callable[[Maker, Random], Draft]

OLDER_CODE: Final = replace(COORDINATOR, unique_id=b"\x33" * 32)
_NAMES: Final = ("n" * 600, "sha256:alice", "\u00e9" * 300)
_VERSIONS: Final = {"app": 5, "batch": 6, "web": 2**60}
_DAY: Final = timedelta(days=1)


def begun(
    maker: Maker, chance: Random, how: str = "new", raw: bytes = b"", *, is_old: bool = False,
    signed: bool = True,
) -> Coordinator:  # fmt: skip
    """Return a coordinator with a begun log.

    ``how``: see ``Coordinator.begin``. ``is_old``: leaves of an older version. ``signed``: the
    manifest requires signed approvals.
    """
    made = Coordinator(maker, chance, signed=signed, is_old=is_old)
    made.begin(how, raw or manifest_like("first", 2, signed=signed))
    return made


def hide(place: int) -> Callable[[Maker, Evidence], Evidence]:
    """Return a change: hide the entry at ``place``."""

    def change(_maker: Maker, found: Evidence) -> Evidence:
        entries: list[Entry] = list(found.entries)
        entry = entries[place]
        assert isinstance(entry, bytes)
        entries[place] = Hidden(leaf_hash(entry))
        return replace(found, entries=tuple(entries))

    return change


def several(packages: dict[str, int]) -> bytes:
    """Return a manifest with these packages and versions; ``releaser`` may raise the versions."""

    def change(found: dict[str, Any]) -> None:
        one = found["Packages"]["app"]
        found["Packages"] = {name: {**one, "SecurityVersion": n} for name, n in packages.items()}
        found["Roles"]["release"]["ResourceNames"] = list(packages)

    return together(change, Transparency={"SignedApprovals": True})


def packages_in_two_leaves(maker: Maker, chance: Random) -> Coordinator:
    """Return a coordinator with one package update in two leaves."""
    made = begun(maker, chance, raw=several(dict.fromkeys(_VERSIONS, 3)))
    document = {name: {"SecurityVersion": number} for name, number in _VERSIONS.items()}
    update = made.draft.add(json.dumps({"Packages": document}).encode())
    by = made.by("releaser")
    rows = [[name, str(number)] for name, number in sorted(_VERSIONS.items())]
    fields: Said = {"base": made.manifest, "_update": update, "intermediate": made.intermediate}
    made.say("packages-updated", **by, **fields, versions=rows[:2])
    made.say("packages-updated", **{**by, "approval": 0}, **fields, versions=rows[2:])
    return made


def _two_leaves(maker: Maker, chance: Random) -> Draft:
    made = packages_in_two_leaves(maker, chance)
    made.upload()
    return made.draft


def _private(maker: Maker, chance: Random) -> Coordinator:
    """Return a coordinator with a private first manifest; the manifest contains a secret."""
    value = b64encode(b"a value").decode()
    raw = together(lambda found: found["Secrets"]["note"].update(Private=value))
    made = begun(maker, chance, raw=raw)
    made.draft.said[1]["public"] = False
    return made


def _not_public(maker: Maker, chance: Random) -> Draft:
    made = _private(maker, chance)
    made.draft.lost.add(made.manifest)
    made.raise_versions()
    made.upload()
    made.draft.gaps |= {Gap.MANIFEST_NOT_PUBLIC, Gap.RIGHTS_UNKNOWN, Gap.NOT_SIGNED}
    return made.draft


def _not_public_but_there(maker: Maker, chance: Random) -> Draft:
    return _private(maker, chance).draft


def _missing_manifest(maker: Maker, chance: Random) -> Draft:
    made = begun(maker, chance, is_old=True)
    made.draft.lost.add(made.manifest)
    made.draft.gaps.add(Gap.MANIFEST_MISSING)
    return made.draft


def _approved_before(made: Coordinator, name: str, missing: int) -> None:
    """Append an agreement to an update proposed before the begin of the log."""
    said = made.by(name)
    if made.draft.is_old:
        said["approval"] = ""
    new = made.draft.add(manifest_like("from before", 2))
    made.say("update-approved", **said, _base=made.manifest, manifest=new, missing=missing)


def _agreed_before(how: str, missing: tuple[int, ...], *, is_old: bool = False) -> Rare:
    def rare(maker: Maker, chance: Random) -> Draft:
        made = begun(maker, chance, how, manifest_like("first", 3), is_old=is_old)
        for name, number in zip(("bob", "carol", "bob", "alice"), missing, strict=False):
            _approved_before(made, name, number)
        base, made.raw = made.manifest, manifest_like("from before", 2)
        made.take_effect("manifest-updated", base=base)
        made.draft.gaps.add(Gap.AGREED_BEFORE_LOG)
        if is_old:
            made.draft.gaps |= {Gap.NOT_SIGNED, Gap.RIGHTS_UNKNOWN}
        return made.draft

    return rare


def _cancelled_before(by: str, *, approved: bool = False) -> Rare:
    def rare(maker: Maker, chance: Random) -> Draft:
        made = begun(maker, chance, "older")
        named = object_name(manifest_like("from before", 2))
        if approved:
            _approved_before(made, "carol", 1)
        said = made.by(by, plan=False) if by else _NOBODY
        made.say("update-cancelled", **said, _base=made.manifest, manifest=named)
        made.draft.gaps |= {Gap.AGREED_BEFORE_LOG}
        made.draft.gaps |= set() if by else {Gap.CANCELLED_BY_COORDINATOR}
        return made.draft

    return rare


_NOBODY: Final[Said] = {"user": "", "certificate": "", "approval": ""}


def _cancelled_by_coordinator(maker: Maker, chance: Random) -> Draft:
    made = begun(maker, chance)
    named = made.draft.add(manifest_like("second", 2))
    made.say(
        "update-proposed", **made.by("alice"), base=made.manifest, manifest=named, needed=2,
        public=True,
    )  # fmt: skip
    made.start()
    made.say("update-cancelled", **_NOBODY, manifest=named)
    made.draft.gaps.add(Gap.CANCELLED_BY_COORDINATOR)
    return made.draft


def _without(gap: Gap, **fields: str) -> Rare:
    def rare(maker: Maker, chance: Random) -> Draft:
        made = begun(maker, chance)
        made.start(**fields)
        made.draft.gaps.add(gap)
        return made.draft

    return rare


def _seen_late(maker: Maker, chance: Random) -> Draft:
    draft = begun(maker, chance).draft
    draft.seen = BEGUN + 2 * 365 * _DAY
    draft.head["seen"] = draft.seen
    draft.pins["now"] = draft.seen + _DAY
    draft.gaps.add(Gap.START_AT_CLAIMED_TIME)
    return draft


def _claimed(after: int) -> Rare:
    """Return a history whose last entry claims a time ``after`` microseconds past the median."""

    def rare(maker: Maker, chance: Random) -> Draft:
        made = begun(maker, chance)
        made.anchor()
        draft = made.draft
        # ``cosigned`` uses three times. The median is the second time, one second later.
        median = draft.seen + timedelta(minutes=len(draft.said), seconds=1)
        draft.said[-1]["time"] = int(median.timestamp()) * 1_000_000 + after
        draft.gaps |= {Gap.CLAIMED_TIME_LATE} if after > _TEN_MINUTES else set()
        return draft

    return rare


_TEN_MINUTES: Final = 600_000_000


def _hidden(kind: str, how: str = "new") -> Rare:
    def rare(maker: Maker, chance: Random) -> Draft:
        made = begun(maker, chance, how)
        made.anchor()
        made.upload()
        made.draft.changes.append(hide(made.draft.of(kind)[0]))
        made.draft.gaps.add(Gap.HIDDEN_ENTRY)
        return made.draft

    return rare


def _every_key(maker: Maker, chance: Random) -> Draft:
    """Return an update by users with a key of each kind."""
    names = list(KEYS)
    raw = together(updaters=names, UpdateThreshold=0, Transparency={"SignedApprovals": True})
    return _agreed_by(begun(maker, chance, raw=raw), names, names).draft


def _long_names(maker: Maker, chance: Random) -> Draft:
    """Return an update by users with long names; a leaf writes such names as hashes."""
    raw = together(updaters=_NAMES, UpdateThreshold=0, Transparency={"SignedApprovals": True})
    made = begun(maker, chance, raw=raw)
    return _agreed_by(made, list(_NAMES), [name_in_leaf(each) for each in _NAMES]).draft


def _agreed_by(made: Coordinator, names: list[str], written: list[str]) -> Coordinator:
    base, new = made.manifest, together(word="second")
    named = made.draft.add(new)
    for place, (name, word) in enumerate(zip(names, written, strict=True)):
        by = {**made.by(name), "user": word, "_signer": name}
        if place == 0:
            public: Said = {"needed": len(names), "public": True}
            made.say("update-proposed", **by, base=base, manifest=named, **public)
        else:
            missing = len(names) - place - 1
            made.say("update-approved", **by, _base=base, manifest=named, missing=missing)
    made.raw = new
    made.take_effect("manifest-updated", base=base)
    return made


def _trusting(files: Callable[[Maker, Coordinator], dict[str, bytes | None]], *gaps: Gap) -> Rare:
    """Return a plain history for an auditor with these ``files``."""

    def rare(maker: Maker, chance: Random) -> Draft:
        made = begun(maker, chance)
        made.raise_versions()
        made.draft.trusted |= files(maker, made)
        made.draft.gaps |= set(gaps)
        return made.draft

    return rare


def _older_code(maker: Maker, chance: Random) -> Draft:
    made = begun(maker, chance)
    made.start(unique=OLDER_CODE.unique_id.hex())
    older = replace(maker.platform.expected_identity, unique_id=OLDER_CODE.unique_id)
    made.draft.trusted["accepted/older.json"] = write_expected_identity(older)
    return made.draft


def _policy(change: Callable[[str, Maker], str]) -> Rare:
    return _trusting(lambda maker, _: {"witnesses.policy": change(maker.policy, maker).encode()})


def _other_log() -> VerifierKey:
    return VerifierKey("log.example.org/other", ED25519, bytes(32))


def _witness_outside_of_quorum(maker: Maker, chance: Random) -> Draft:
    """Return a log whose claimed time is late for the quorum, but not for all witnesses.

    The quorum needs only the first witness; the median over all witnesses of the policy counts.
    """
    draft = _claimed(_TEN_MINUTES)(maker, chance)
    text = maker.policy.replace("group Q 2 W0 W1 W2", "group R any W0\ngroup Q all R")
    draft.trusted["witnesses.policy"] = text.encode()
    return draft


def _two_lines(maker: Maker, draft: Draft, tree: Frontier) -> SignedNote:
    """Return a checkpoint with two cosignatures of a witness, at different times."""
    first = cosigned(maker, draft, tree)
    later = cosigned(maker, draft, tree, times=(timedelta(seconds=30),))
    return replace(first, signatures=(*first.signatures, later.signatures[1]))


def _cosigned_again(maker: Maker, chance: Random) -> Draft:
    draft = _claimed(_TEN_MINUTES + 1_000_000)(maker, chance)
    draft.note = _two_lines  # now the median is the time of the third witness
    draft.gaps.clear()
    return draft


def _alone(maker: Maker, draft: Draft, tree: Frontier) -> SignedNote:
    """Return a checkpoint with three witnesses at the end of the log, and one witness before."""
    times = (timedelta(),) * (3 if tree.size == len(draft.said) else 1)
    return cosigned(maker, draft, tree, times=times)


def _without_quorum_before(maker: Maker, chance: Random) -> Draft:
    draft = begun(maker, chance).draft
    draft.milestones, draft.note = {1, 2}, _alone
    return draft


def _compressed(maker: Maker, chance: Random) -> Draft:
    draft = begun(maker, chance).draft
    draft.rewrites.append(lambda raw: gzip.compress(raw, mtime=1))
    return draft


def _nonce(raw: bytes) -> Rare:
    def rare(maker: Maker, chance: Random) -> Draft:
        draft = begun(maker, chance).draft
        draft.head |= {"nonce": raw, "shown": raw}
        return draft

    return rare


def _replaced_only(maker: Maker, chance: Random) -> Draft:
    draft = begun(maker, chance, "replaces").draft
    draft.said[0]["imported"] = ""
    return draft


def _believed_base(maker: Maker, chance: Random) -> Draft:
    made = begun(maker, chance, "older", is_old=True, raw=manifest_like("first", 1))
    made.upload()
    made.update()
    return made.draft


def _no_intermediate(maker: Maker, chance: Random) -> Draft:
    made = begun(maker, chance, "older", is_old=True)
    made.anchor()
    made.draft.gaps -= {Gap.RIGHTS_UNKNOWN}
    made.draft.gaps |= {Gap.INTERMEDIATE_UNKNOWN}
    return made.draft


def _recovered(maker: Maker, chance: Random) -> Draft:
    """Return a recovery in two leaves, by three holders of a manifest that the file lacks."""
    made = begun(maker, chance, raw=manifest_like("first", 2, holders=3), is_old=True)
    at = f"7.2.{'0' * 64}"
    made.say("recovered", at=at, holders=["rk0", "rk2"])
    made.say("recovered", at=at, holders=["rk1"])
    made.start(at=at)
    made.draft.lost.add(made.manifest)
    made.draft.gaps |= {Gap.MANIFEST_MISSING, Gap.RIGHTS_UNKNOWN}
    return made.draft


def _hardening(maker: Maker, chance: Random) -> Draft:
    draft = begun(maker, chance).draft
    status = TcbStatus.SW_HARDENING_NEEDED
    draft.head["parameters"] = QuoteParameters(tcb_info=TcbInfo(status=status))
    expected = replace(maker.platform.expected_identity, accepted_tcb_statuses=())
    draft.trusted["attestation.json"] = write_expected_identity(expected)
    return draft


RARE: Final[dict[str, Rare]] = {
    "a manifest with a value, which is not in the file": _not_public,
    "a manifest with a value, which is in the file": _not_public_but_there,
    "a manifest that is missing": _missing_manifest,
    "an update from before the log": _agreed_before("older", (0,)),
    "an update from before the log, with many agreements": _agreed_before("older", (1, 1, 1, 0)),
    "an update from before a log that replaces another": _agreed_before("replaces", (1, 0)),
    "an update from before a log of an older version": _agreed_before("older", (1, 0), is_old=True),
    "a cancellation of an update from before the log": _cancelled_before("bob"),
    "a cancellation of an update from before the log, by nobody": _cancelled_before(""),
    "a cancellation of an approved update from before the log": _cancelled_before(
        "bob", approved=True
    ),
    "a cancellation by the coordinator": _cancelled_by_coordinator,
    "a start without a quote": _without(Gap.START_WITHOUT_QUOTE, quote="", collateral=""),
    "a start without collateral": _without(Gap.START_WITHOUT_COLLATERAL, collateral=""),
    "starts that witnesses saw years later": _seen_late,
    "a claimed time ten minutes after the witnesses": _claimed(_TEN_MINUTES),
    "a claimed time that is late": _claimed(_TEN_MINUTES + 1),
    "a hidden anchor": _hidden("anchor"),
    "a hidden start in an older deployment": _hidden("started", "older"),
    "approvals by keys of each kind": _every_key,
    "users with long names": _long_names,
    "a package update in two entries": _two_leaves,
    "a pinned manifest": _trusting(
        lambda _, made: {
            "root-fingerprint": None, "manifest-fingerprint": made.manifest.encode() + b"\n"
        },
        Gap.ROOT_NOT_PINNED,
    ),
    "a pinned manifest beside the root": _trusting(
        lambda _, made: {"manifest-fingerprint": made.manifest.encode() + b"\n"}
    ),
    "older code that is accepted": _older_code,
    "no witnesses": _trusting(lambda *_: {"witnesses.policy": None}, Gap.NO_WITNESSES),
    "nothing that is pinned": _trusting(
        lambda *_: dict.fromkeys(
            ("root-fingerprint", "root.pem", "attestation.json", "witnesses.policy")
        ),
        Gap.NOTHING_PINNED,
    ),
    "a maximum age": _trusting(lambda *_: {"max-age": b"7200\n"}),
    "a policy that names the log": _policy(
        lambda text, maker: f"log {_other_log()}\nlog {maker.key} https://a.example\n{text}"
    ),
    "a policy of groups": _policy(
        lambda text, _: text.replace("group Q 2 W0 W1 W2", "group R 1 W1 W2\ngroup Q all W0 R")
    ),
    "a witness outside of the quorum": _witness_outside_of_quorum,
    "a witness that cosigned twice": _cosigned_again,
    "checkpoints without a quorum before the last": _without_quorum_before,
    "a compressed file": _compressed,
    "an empty nonce": _nonce(b""),
    "a long nonce": _nonce(bytes(5000)),
    "a log that replaces another, without its lines": _replaced_only,
    "a base that is believed": _believed_base,
    "an intermediate certificate that is unknown": _no_intermediate,
    "a recovery in two entries": _recovered,
    "a platform that needs software hardening": _hardening,
}  # fmt: skip
