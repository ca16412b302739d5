"""Which leaf may follow which: histories of a coordinator are followed, all others refused."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from support.samples.deployment import user
from support.samples.updates import together

from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.evidence.gaps import Gap
from keyhouse.evidence.history import (
    History,
    LogIdentity,
    LogReferences,
    follow,
    follow_hidden,
    require_whole,
)
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.leaf import Leaf, object_name

IDENTITY = LogIdentity(f"keyhouse/{'a' * 32}", "a" * 64, "a key")
KEYS = "0" * 64


def certificate(name: str) -> str:
    return hashlib.sha256(user(name).der).hexdigest()


def manifest(threshold: int = 2, version: int = 3, origin: str = "", **users: list[str]) -> bytes:
    users = users or {name: ["admin", "write"] for name in ("alice", "bob", "carol")}
    return json.dumps(
        {
            "Packages": {
                "signed": {"SignerID": "1" * 64, "ProductID": 1, "SecurityVersion": version},
                "exact": {"UniqueID": "2" * 64},
            },
            "Marbles": {"web": {"Package": "signed"}},
            "Secrets": {"note": {"Type": "plain", "UserDefined": True}},
            "Users": {
                name: {"Certificate": user(name).pem.decode(), "Roles": roles}
                for name, roles in {**users, "nobody": []}.items()
            },
            "Roles": {
                "admin": {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]},
                "write": {
                    "ResourceType": "Secrets",
                    "ResourceNames": ["note"],
                    "Actions": ["WriteSecret"],
                },
                "raise": {
                    "ResourceType": "Packages",
                    "ResourceNames": ["signed", "exact"],
                    "Actions": ["UpdateSecurityVersion"],
                },
            },
            "Config": {
                "UpdateThreshold": threshold,
                **({"Transparency": {"Origin": origin}} if origin else {}),
            },
        }
    ).encode()


FIRST = manifest(
    alice=["admin", "write", "raise"], bob=["admin"], carol=["admin", "write"], dave=["write"]
)
SECOND = manifest(threshold=1)
FIRST_NAME, SECOND_NAME = object_name(FIRST), object_name(SECOND)
OBJECTS = {object_name(raw): raw for raw in (FIRST, SECOND, b"lines")}


def begun(**fields: Any) -> Leaf:
    said = {"origin": IDENTITY.origin, "root": IDENTITY.root, "key": IDENTITY.key}
    more = {"time": 1, "platform": "simulation", "previous": None, "imported": ""}
    return leaves.LogBegunLeaf(**{**said, **more, **fields})


def first(**fields: Any) -> Leaf:
    said = {"time": 1, "manifest": FIRST_NAME, "intermediate": KEYS, "recovery": None}
    return leaves.ManifestSetLeaf(**{**said, **fields})


def started(sequence: int = 1, **fields: Any) -> Leaf:
    said = {
        "time": 1,
        "at": f"1.{sequence}.{'0' * 64}",
        "instance": f"{sequence:032x}",
        "version": "0.1.0",
        "platform": "simulation",
        "unique": "1" * 64,
        "signer": "2" * 64,
        "product": 1,
        "svn": 1,
        "quote": "",
        "collateral": "",
    }
    return leaves.StartedLeaf(**{**said, **fields})


def recovered(*holders: str, sequence: int = 9, **fields: Any) -> Leaf:
    said = {"time": 1, "at": f"1.{sequence}.{'0' * 64}", "holders": holders}
    return leaves.RecoveredLeaf(**{**said, **fields})


def proposed(by: str = "alice", **fields: Any) -> Leaf:
    said = {"base": FIRST_NAME, "manifest": SECOND_NAME, "plan": "", "needed": 2, "approval": ""}
    return leaves.UpdateProposedLeaf(
        **{"time": 1, "user": by, "certificate": certificate(by), **said, **fields}
    )


def approved(by: str = "bob", **fields: Any) -> Leaf:
    said = {"manifest": SECOND_NAME, "plan": "", "missing": 0, "approval": ""}
    return leaves.UpdateApprovedLeaf(
        **{"time": 1, "user": by, "certificate": certificate(by), **said, **fields}
    )


def cancelled(by: str = "carol", **fields: Any) -> Leaf:
    said = {"time": 1, "manifest": SECOND_NAME, "approval": ""}
    who = {"user": by, "certificate": certificate(by) if by else ""}
    return leaves.UpdateCancelledLeaf(**{**said, **who, **fields})


def updated(**fields: Any) -> Leaf:
    said = {"base": FIRST_NAME, "manifest": SECOND_NAME, "intermediate": KEYS, "recovery": None}
    return leaves.ManifestUpdatedLeaf(**{"time": 1, **said, **fields})


def raised(version: str = "4", name: str = "signed", by: str = "alice", **fields: Any) -> Leaf:
    said = {"base": FIRST_NAME, "versions": ((name, version),), "intermediate": KEYS, "plan": ""}
    who = {"time": 1, "user": by, "certificate": certificate(by), "approval": ""}
    return leaves.PackagesUpdatedLeaf(**{**said, **who, **fields})


def uploaded(by: str = "alice", *names: str) -> Leaf:
    upload = leaves.Uploads(by, certificate(by), names or ("note",))
    return leaves.SecretsUploadedLeaf(time=1, uploads=(upload,))


def anchor(sequence: int, epoch: int = 1) -> Leaf:
    at = f"{epoch}.{sequence}.{'0' * 64}" if sequence else ""
    return leaves.AnchorLeaf(time=1, at=at, nonce="0" * 32, activations="")


BEGIN = (begun(), first(), started())
NOUGHT = f"0.0.{'0' * 64}"
NO_NAMES = leaves.Uploads("alice", certificate("alice"), ())
LINES = object_name(b"lines")
OLDER = (begun(imported=LINES), started())
IN_FORCE = (
    begun(imported=LINES, manifest=FIRST_NAME, intermediate=KEYS, public=True),
    started(),
)
"""A log that begins in a deployment, and names the manifest in force."""


def followed(
    *said: Leaf | None,
    objects: Callable[[str], bytes | None] = OBJECTS.get,
    origin: str = IDENTITY.origin,
) -> tuple[History, list[tuple[Gap, ...]]]:
    """Return the history of these leaves, and the gaps of each; None is a hidden entry."""
    history, gaps = History(replace(IDENTITY, origin=origin)), []
    log = LogReferences(objects, lambda _: bytes(32), set())
    for each in said:
        step = follow_hidden(history) if each is None else follow(history, each, log)
        history = step.history
        gaps.append(step.gaps)
    return history, gaps


@pytest.mark.parametrize(
    "said",
    [
        BEGIN,
        OLDER,
        (*BEGIN, uploaded(), uploaded("dave"), started(2), started(3), anchor(4)),
        (*BEGIN, proposed(), approved(), updated(), started(2)),
        (*BEGIN, proposed(), approved("alice", missing=1), approved(), updated()),
        (*BEGIN, proposed(), cancelled(), proposed("bob"), cancelled("")),
        (*BEGIN, raised(), proposed(), uploaded(), approved(), updated()),
        (*IN_FORCE, uploaded(), raised(), proposed(), approved(), updated()),
        (*BEGIN, raised("3"), raised("7"), raised("7")),
        (*BEGIN, None, uploaded(), None),
        (*OLDER, approved(), updated()),
        (*OLDER, approved(missing=1), approved("carol", missing=1), approved("alice"), updated()),
        (*OLDER, cancelled(), proposed(), approved(), updated()),
        (*OLDER, uploaded(), raised(), proposed(base=FIRST_NAME)),
        (begun(time=0), first(), started(at=""), started(2)),
        (*BEGIN, started(5), anchor(2, epoch=2)),
        (begun(), first(), started(at=""), anchor(1, epoch=0)),
        (*BEGIN, raised(f"{(1 << 64) - 1}")),
        (*OLDER, raised("0", base=KEYS)),
    ],
)
def test_what_a_coordinator_may_do_is_followed(said: tuple[Leaf | None, ...]) -> None:
    assert followed(*said)[0].size == len(said)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((first(),), "must begin the log"),
        ((*BEGIN, begun()), "must begin the log"),
        ((begun(origin="another"),), "another origin"),
        ((begun(root="b" * 64),), "another origin, root or log key"),
        ((begun(key="another"),), "or log key"),
        ((None,), "cannot be hidden"),
        ((begun(), None), "cannot be hidden"),
        ((begun(), started()), "first manifest"),
        ((begun(imported=LINES), first()), "first manifest"),
        ((*BEGIN, first()), "must set the first manifest"),
        ((*BEGIN, uploaded(), replace(uploaded(), time=0)), "time 0 .*time 1"),
        ((*BEGIN, started(1, instance="f" * 32)), "journal does not increase"),
        ((*BEGIN, started(5), anchor(4)), "journal does not increase"),
        ((*BEGIN, started(2, platform="sgx")), '"sgx".*"simulation"'),
        ((begun(), first(recovery=leaves.RecoverySetup(1, 1))), "1 of 1 .*0 of 0"),
        ((*BEGIN, recovered("anna"), started(9)), 'recovery key "anna"'),
        ((*BEGIN, recovered("anna"), uploaded()), "not followed by its start"),
        ((*BEGIN, recovered("anna"), None), "not followed by its start"),
        ((*BEGIN, recovered("anna"), started(10)), "not followed by its start"),
        ((*BEGIN, recovered("anna"), recovered("anna")), "repeats a holder"),
        ((*BEGIN, recovered()), "names no holder"),
        ((*BEGIN, proposed(base=SECOND_NAME)), "based on a manifest that is not in force"),
        ((*BEGIN, proposed(needed=1)), "1 users .* 2"),
        ((*BEGIN, proposed(needed=3)), "3 users .* 2"),
        ((*BEGIN, proposed("dave")), '"dave" .*UpdateManifest'),
        ((*BEGIN, proposed("stranger")), '"stranger"'),
        ((*BEGIN, proposed(certificate=KEYS)), '"alice" .*certificate'),
        ((*BEGIN, proposed(), proposed("bob")), "while another update was pending"),
        ((*BEGIN, approved()), "not pending"),
        ((*BEGIN, proposed(), approved(manifest=FIRST_NAME)), "not pending"),
        ((*BEGIN, proposed(), approved(missing=1)), "1 more .* 0"),
        ((*BEGIN, proposed(), approved("alice")), "0 more .* 1"),
        ((*BEGIN, proposed(), approved("dave")), '"dave" .*UpdateManifest'),
        ((*BEGIN, proposed(), approved(), uploaded()), "did not take effect"),
        ((*BEGIN, proposed(), approved(), None), "did not take effect"),
        ((*BEGIN, proposed(), updated()), "without enough agreements"),
        ((*BEGIN, updated()), "without enough agreements"),
        (
            (*BEGIN, proposed(), approved(), updated(manifest=FIRST_NAME)),
            "without enough agreements",
        ),
        ((*BEGIN, proposed(), approved(), updated(base=SECOND_NAME)), "a manifest that is not"),
        (
            (*BEGIN, proposed(), approved(), updated(recovery=leaves.RecoverySetup(2, 1))),
            "1 of 2 .*0 of 0",
        ),
        ((*BEGIN, cancelled()), "no update was pending"),
        ((*BEGIN, proposed(), cancelled(manifest=FIRST_NAME)), "was not pending"),
        ((*BEGIN, proposed(), cancelled("dave")), '"dave" .*UpdateManifest'),
        ((*BEGIN, raised("2")), "lowered"),
        ((*BEGIN, raised("9"), raised("8")), "lowered"),
        ((*BEGIN, raised(name="exact")), 'package "exact"'),
        ((*BEGIN, raised(name="note")), '"alice" .*UpdateSecurityVersion'),
        ((*BEGIN, raised(by="carol")), '"carol" .*UpdateSecurityVersion'),
        ((*BEGIN, raised(base=SECOND_NAME)), "a manifest that is not"),
        ((*BEGIN, raised(versions=())), "no package"),
        ((*BEGIN, raised(versions=(("signed", "4"), ("signed", "5")))), "repeats a package"),
        ((*BEGIN, uploaded("bob")), '"bob" .*WriteSecret'),
        ((*BEGIN, uploaded("alice", "unknown")), '"alice" .*WriteSecret'),
        ((*BEGIN, leaves.SecretsUploadedLeaf(time=1, uploads=())), "no secret"),
        ((*BEGIN, leaves.SecretsUploadedLeaf(time=1, uploads=(NO_NAMES,))), "names no secret"),
        ((*BEGIN, started(2, instance=f"{1:032x}")), "starts twice"),
        ((*BEGIN, proposed(), raised()), "while an update was pending"),
        ((*BEGIN, proposed(approval=KEYS)), f"the object {KEYS} is missing"),
        ((*BEGIN, raised(approval=KEYS)), f"the object {KEYS} is missing"),
        ((*BEGIN, proposed(), cancelled(approval=KEYS)), f"the object {KEYS} is missing"),
        ((*BEGIN, proposed(), cancelled("", approval=KEYS)), "but no user"),
        ((*BEGIN, proposed(manifest=KEYS, public=True)), f"the object {KEYS} is missing"),
        ((begun(), first(manifest=KEYS, public=True)), f"the object {KEYS} is missing"),
        ((begun(), first(public=False)), "not public"),
        ((begun(imported=KEYS),), f"the object {KEYS} is missing"),
        ((begun(manifest=FIRST_NAME, intermediate=KEYS, public=True),), "deployment is new"),
        ((*IN_FORCE, proposed(base=SECOND_NAME)), "a manifest that is not"),
        ((*IN_FORCE, uploaded("stranger")), '"stranger"'),
        ((*OLDER, first()), "must set the first manifest"),
        ((*OLDER, raised(), proposed(base=SECOND_NAME)), "a manifest that is not"),
        ((*OLDER, proposed(), approved(missing=1)), "1 more .* 0"),
        ((*OLDER, approved(missing=1), approved("carol", missing=5)), "5 more .* 0"),
        ((*OLDER, approved(missing=3), approved("carol", missing=1)), "1 more .* 2"),
        ((*OLDER, cancelled(), cancelled()), "no update was pending"),
        ((*OLDER, proposed(), cancelled(), approved()), "not pending"),
        ((*OLDER, proposed(needed=0)), "needs no agreement"),
        ((begun(imported=LINES, manifest=FIRST_NAME),), "deployment is new"),
        ((*BEGIN, recovered("anna", at="")), "names no holder"),
        ((*BEGIN, proposed(), cancelled("", certificate=KEYS)), 'user ""'),
        ((*BEGIN, proposed(), cancelled("carol", certificate="")), 'user "carol"'),
        ((*BEGIN, raised(f"{1 << 64}")), "lowered"),
        ((begun(), first(), started(at=""), anchor(0)), "journal does not increase"),
        ((begun(), first(), started(at=""), started(2, at=NOUGHT)), "journal does not increase"),
    ],
)
def test_what_no_coordinator_may_do_is_refused(said: tuple[Leaf | None, ...], why: str) -> None:
    followed(*said[:-1])
    with pytest.raises(HistoryRefusedError, match=why):
        followed(*said)


@pytest.mark.parametrize(
    ("said", "gaps"),
    [
        (BEGIN, ()),
        ((begun(imported=LINES),), (Gap.OLDER_THAN_LOG,)),
        ((begun(previous=leaves.PreviousLog("a", 1, KEYS, "lost")),), (Gap.REPLACES_LOG,)),
        ((*BEGIN, started(2, quote=KEYS)), ()),
        ((*BEGIN, proposed()), (Gap.NOT_SIGNED,)),
        ((*BEGIN, raised()), (Gap.NOT_SIGNED,)),
        ((*BEGIN, uploaded()), ()),
        ((*BEGIN, None), (Gap.HIDDEN_ENTRY,)),
        ((*OLDER, uploaded("stranger")), (Gap.RIGHTS_UNKNOWN,)),
        ((*OLDER, approved()), (Gap.NOT_SIGNED, Gap.RIGHTS_UNKNOWN, Gap.AGREED_BEFORE_LOG)),
        ((*OLDER, cancelled()), (Gap.NOT_SIGNED, Gap.RIGHTS_UNKNOWN, Gap.AGREED_BEFORE_LOG)),
        ((*OLDER, approved(), updated()), (Gap.AGREED_BEFORE_LOG,)),
        ((*IN_FORCE, approved()), (Gap.NOT_SIGNED, Gap.AGREED_BEFORE_LOG)),
        ((*BEGIN, proposed(), cancelled("")), (Gap.CANCELLED_BY_COORDINATOR,)),
        ((*BEGIN, proposed(manifest=KEYS)), (Gap.NOT_SIGNED, Gap.MANIFEST_MISSING)),
        (
            (*BEGIN, proposed(manifest=KEYS, public=False)),
            (Gap.NOT_SIGNED, Gap.MANIFEST_NOT_PUBLIC),
        ),
        ((begun(), first(manifest=KEYS)), (Gap.MANIFEST_MISSING,)),
        ((begun(), first(manifest=KEYS, public=False)), (Gap.MANIFEST_NOT_PUBLIC,)),
        ((begun(), first(public=True)), ()),
        (
            (begun(imported=LINES, previous=leaves.PreviousLog("a", 1, KEYS, "lost")),),
            (Gap.REPLACES_LOG,),
        ),
        ((*BEGIN, proposed(), approved()), (Gap.NOT_SIGNED,)),
        ((*BEGIN, proposed(), approved(), updated()), ()),
        (
            (*OLDER, approved(manifest=KEYS), updated(manifest=KEYS, public=False)),
            (Gap.MANIFEST_NOT_PUBLIC, Gap.AGREED_BEFORE_LOG),
        ),
        ((*OLDER, recovered("anna"), started(9)), (Gap.RIGHTS_UNKNOWN,)),
        ((*OLDER, recovered("anna"), started(9), started(10)), ()),
        (
            (begun(imported=LINES, manifest=KEYS, intermediate=KEYS, public=False),),
            (Gap.OLDER_THAN_LOG, Gap.MANIFEST_NOT_PUBLIC),
        ),
    ],
)
def test_what_cannot_be_judged_is_told(
    said: tuple[Leaf | None, ...], gaps: tuple[Gap, ...]
) -> None:
    assert followed(*said)[1][-1] == gaps


def test_a_manifest_that_is_not_in_the_log_is_told_wherever_it_would_be_needed() -> None:
    nothing: dict[str, bytes] = {}
    said = (*BEGIN, uploaded("bob"), proposed("dave", needed=5), cancelled("dave"), raised("1"))

    history, gaps = followed(*said, objects=nothing.get)

    assert history.manifest == FIRST_NAME
    assert [Gap.MANIFEST_MISSING in each for each in gaps][:3] == [False, True, False]
    assert [Gap.RIGHTS_UNKNOWN in each for each in gaps] == [*(3 * [False]), *(4 * [True])]


@pytest.mark.parametrize(
    ("first_origin", "second_origin", "origin", "fits"),
    [
        ("", "", IDENTITY.origin, True),
        ("", "", "log.example.org/a", False),
        ("log.example.org/a", "", "log.example.org/a", True),
        ("log.example.org/a", "log.example.org/a", "log.example.org/a", True),
        ("log.example.org/b", "", "log.example.org/a", False),
        ("log.example.org/a", "log.example.org/b", "log.example.org/a", False),
        ("", IDENTITY.origin, IDENTITY.origin, True),
    ],
)
def test_the_log_has_the_name_that_the_first_manifest_gives_it(
    first_origin: str, second_origin: str, origin: str, *, fits: bool
) -> None:
    origins = (first_origin, second_origin)
    raws = [manifest(origin=each, alice=["admin"], bob=["admin"]) for each in origins]
    objects = {object_name(raw): raw for raw in raws}
    one, two = (object_name(raw) for raw in raws)
    said = (
        begun(origin=origin),
        first(manifest=one),
        proposed(base=one, manifest=two),
        approved(manifest=two),
        updated(base=one, manifest=two),
    )

    if fits:
        followed(*said, objects=objects.get, origin=origin)
        return
    with pytest.raises(HistoryRefusedError, match=f'"{origin}"'):
        followed(*said, objects=objects.get, origin=origin)


@pytest.mark.parametrize(
    ("said", "why"),
    [((recovered("anna"),), "ends between"), ((proposed(), approved()), "ends before an update")],
)
def test_a_log_cannot_end_between_leaves_that_belong_together(
    said: tuple[Leaf, ...], why: str
) -> None:
    require_whole(followed(*BEGIN, proposed())[0])
    with pytest.raises(HistoryRefusedError, match=why):
        require_whole(followed(*BEGIN, *said)[0])


def test_a_full_update_that_lowers_a_version_has_a_note() -> None:
    log, history = LogReferences(OBJECTS.get, lambda _: bytes(32), set()), History(IDENTITY)
    notes = []
    for leaf in (*BEGIN, raised("9"), proposed(), approved(), updated()):
        history, _, found = follow(history, leaf, log)
        notes.append(found)

    assert notes == [*(6 * [()]), ('lowers the security version of "signed" from 9 to 3',)]


@pytest.mark.parametrize(
    ("spoiled", "why"),
    [
        (FIRST.replace(b'"Config":', b'"CONFIG": {"UpdateThreshold": 1}, "Config":'), "once"),
        (FIRST.replace(b'"Users":', b'"More": {}, "Users":'), "unknown"),
        (FIRST.replace(b'"UpdateThreshold": 2', b'"UpdateThreshold": 9'), "UpdateThreshold"),
        (
            FIRST.replace(
                json.dumps(user("bob").pem.decode()).encode(),
                json.dumps(user("alice").pem.decode()).encode(),
            ),
            "certificate of the user",
        ),
        (FIRST.replace(b"BEGIN CERTIFICATE", b"BEGIN NOTHING", 1), "Certificate"),
        (b"[]", "must be an object"),
    ],
)
def test_a_manifest_that_coordinators_refuse_is_refused(spoiled: bytes, why: str) -> None:
    named = object_name(spoiled)
    objects = {**OBJECTS, named: spoiled}

    with pytest.raises(HistoryRefusedError, match=f"{named} .*{why}"):
        followed(begun(), first(manifest=named), objects=objects.get)
    with pytest.raises(HistoryRefusedError, match=f"{named} .*{why}"):
        followed(*BEGIN, proposed(manifest=named), objects=objects.get)


def test_an_object_that_is_not_a_manifest_is_refused() -> None:
    with pytest.raises(HistoryRefusedError, match=object_name(b"[]")):
        followed(*BEGIN, objects=lambda _: b"[]")


def after(*said: Leaf, objects: Callable[[str], bytes | None] = OBJECTS.get) -> History:
    return followed(*said, objects=objects)[0]


def test_the_state_has_what_was_said_last() -> None:
    other = "7" * 64
    history = after(*BEGIN, raised("4", intermediate=other), raised("9"))
    assert (history.intermediate, history.versions) == (KEYS, {"signed": 9})
    assert after(*BEGIN, raised("4", intermediate=other)).intermediate == other

    history = after(*BEGIN, raised("9"), proposed(), approved(), updated(intermediate=other))
    assert (history.manifest, history.intermediate) == (SECOND_NAME, other)
    assert (history.versions, history.pending, history.is_older) == ({}, None, False)

    history = after(*IN_FORCE[:1])
    assert (history.manifest, history.intermediate, history.is_older) == (FIRST_NAME, KEYS, True)
    assert not after(*OLDER, approved(), updated()).is_older
    assert after(*BEGIN).started == started()


def test_each_decision_counts_to_its_end() -> None:
    raw = manifest(
        alice=["admin", "write", "raise"], bob=["admin"], carol=["admin"], dave=["write"]
    )
    objects, named = {**OBJECTS, object_name(raw): raw}, object_name(raw)
    said = (
        *BEGIN,
        uploaded(),
        proposed(manifest=named),
        cancelled(manifest=named),
        proposed(manifest=named),
        approved(manifest=named),
        updated(manifest=named),
        raised(base=named),
        started(2),
    )

    decided = [after(*said[: n + 1], objects=objects.get).decided for n in range(len(said))]

    assert decided == [1, 2, 2, 2, 5, 6, 7, 7, 9, 10, 10]


def test_votes_are_counted_once_and_signatures_only_if_there_are_any() -> None:
    (pending,) = {after(*BEGIN, proposed(), approved("alice", missing=1)).pending}
    assert pending is not None
    assert (pending.voters, pending.signed, pending.missing) == (("alice",), (), 1)
    both = after(*BEGIN, proposed(), approved()).pending
    assert both is not None
    assert (both.voters, both.signed, both.missing) == (("alice", "bob"), (), 0)


def test_enough_holders_recover_once_and_their_start_ends_it() -> None:
    raw = together(holders=("rk0", "rk1", "rk2"), RecoveryThreshold=2)
    said = (
        begun(),
        first(manifest=object_name(raw), recovery=leaves.RecoverySetup(3, 2)),
        started(),
    )
    objects = {object_name(raw): raw}.get

    for holders in (("rk0", "rk1"), ("rk0", "rk1", "rk2")):
        history = after(*said, recovered(*holders), started(9), anchor(10), objects=objects)
        assert (history.recovering, history.recovering_at) == ((), "")
    parts = recovered("rk0"), recovered("rk1")
    again = recovered("rk0", "rk1", sequence=12)
    after(*said, *parts, started(9), again, started(12), objects=objects)
    with pytest.raises(HistoryRefusedError, match=r"1 holders .* 2"):
        after(*said, recovered("rk0"), started(9), objects=objects)


def test_a_lowered_version_counts_without_a_package_update() -> None:
    raws = {version: manifest(version=version) for version in (0, 3, 4)}
    without = json.loads(raws[3])
    without["Packages"]["signed"] = {"UniqueID": "3" * 64}
    objects = {object_name(raw): raw for raw in raws.values()}
    log = LogReferences(objects.get, lambda _: bytes(32), set())

    def notes(old: bytes, new: bytes) -> tuple[str, ...]:
        objects.update({object_name(raw): raw for raw in (old, new)})
        history = after(begun(), first(manifest=object_name(old)), objects=objects.get)
        base, named = object_name(old), object_name(new)
        for leaf in (proposed(base=base, manifest=named), approved(manifest=named)):
            history = follow(history, leaf, log).history
        return follow(history, updated(base=base, manifest=named), log).notes

    assert notes(raws[4], raws[3]) == ('lowers the security version of "signed" from 4 to 3',)
    assert notes(raws[3], manifest(threshold=1, version=3)) == ()
    assert notes(json.dumps(without).encode(), raws[0]) == ()


def test_a_log_may_end_where_nothing_is_pending() -> None:
    require_whole(after(*BEGIN))
