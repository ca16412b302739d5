"""Which leaf may follow which: histories of a coordinator are followed, all others refused."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from support.samples.deployment import user

from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.evidence.history import Gap, History, LogIdentity, LogView, follow, follow_hidden
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
OBJECTS = {object_name(raw): raw for raw in (FIRST, SECOND)}
FIRST_NAME, SECOND_NAME = OBJECTS


def begun(**fields: Any) -> Leaf:
    said = {"origin": IDENTITY.origin, "root": IDENTITY.root, "key": IDENTITY.key}
    more = {"time": 1, "platform": "simulation", "previous": None, "imported": ""}
    return leaves.LogBegun(**{**said, **more, **fields})


def first(**fields: Any) -> Leaf:
    said = {"time": 1, "manifest": FIRST_NAME, "intermediate": KEYS, "recovery": None}
    return leaves.ManifestSet(**{**said, **fields})


def started(sequence: int = 1, **fields: Any) -> Leaf:
    said = {
        "time": 1,
        "at": f"1.{sequence}.{'0' * 64}",
        "instance": "0" * 32,
        "version": "0.1.0",
        "platform": "simulation",
        "unique": "1" * 64,
        "signer": "2" * 64,
        "product": 1,
        "svn": 1,
        "quote": "",
        "collateral": "",
    }
    return leaves.Started(**{**said, **fields})


def recovered(*holders: str, sequence: int = 9) -> Leaf:
    return leaves.Recovered(time=1, at=f"1.{sequence}.{'0' * 64}", holders=holders)


def proposed(by: str = "alice", **fields: Any) -> Leaf:
    said = {"base": FIRST_NAME, "manifest": SECOND_NAME, "plan": "", "needed": 2, "approval": ""}
    return leaves.UpdateProposed(
        **{"time": 1, "user": by, "certificate": certificate(by), **said, **fields}
    )


def approved(by: str = "bob", **fields: Any) -> Leaf:
    said = {"manifest": SECOND_NAME, "plan": "", "missing": 0, "approval": ""}
    return leaves.UpdateApproved(
        **{"time": 1, "user": by, "certificate": certificate(by), **said, **fields}
    )


def cancelled(by: str = "carol", **fields: Any) -> Leaf:
    said = {"time": 1, "manifest": SECOND_NAME, "approval": ""}
    who = {"user": by, "certificate": certificate(by) if by else ""}
    return leaves.UpdateCancelled(**{**said, **who, **fields})


def updated(**fields: Any) -> Leaf:
    said = {"base": FIRST_NAME, "manifest": SECOND_NAME, "intermediate": KEYS, "recovery": None}
    return leaves.ManifestUpdated(**{"time": 1, **said, **fields})


def raised(version: str = "4", name: str = "signed", by: str = "alice", **fields: Any) -> Leaf:
    said = {"base": FIRST_NAME, "versions": ((name, version),), "intermediate": KEYS, "plan": ""}
    who = {"time": 1, "user": by, "certificate": certificate(by), "approval": ""}
    return leaves.PackagesUpdated(**{**said, **who, **fields})


def uploaded(by: str = "alice", *names: str) -> Leaf:
    upload = leaves.Uploads(by, certificate(by), names or ("note",))
    return leaves.SecretsUploaded(time=1, uploads=(upload,))


def anchor(sequence: int) -> Leaf:
    return leaves.Anchor(time=1, at=f"1.{sequence}.{'0' * 64}", nonce="0" * 32, activations="")


BEGIN = (begun(), first(), started())
OLDER = (begun(imported="b" * 64), started())


def followed(
    *said: Leaf | None,
    objects: Callable[[str], bytes | None] = OBJECTS.get,
    origin: str = IDENTITY.origin,
) -> tuple[History, list[tuple[Gap, ...]]]:
    """Return the history of these leaves, and the gaps of each; None is a hidden entry."""
    history, gaps = History(replace(IDENTITY, origin=origin)), []
    log = LogView(objects, lambda _: bytes(32))
    for each in said:
        history, found = follow_hidden(history) if each is None else follow(history, each, log)
        gaps.append(found)
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
        (*BEGIN, proposed(), raised(), uploaded(), approved(), updated()),
        (*BEGIN, raised("3"), raised("7"), raised("7")),
        (*BEGIN, None, uploaded(), None),
        (*OLDER, approved(), updated()),
        (*OLDER, approved(missing=1), approved("carol", missing=1), approved("alice"), updated()),
        (*OLDER, cancelled(), proposed(), approved(), updated()),
        (*OLDER, uploaded(), raised(), proposed(base=FIRST_NAME)),
    ],
)
def test_what_a_coordinator_may_do_is_followed(said: tuple[Leaf | None, ...]) -> None:
    assert followed(*said)[0].size == len(said)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((first(),), "begins once"),
        ((*BEGIN, begun()), "begins once"),
        ((begun(origin="another"),), "another origin"),
        ((begun(root="b" * 64),), "another origin, root or key"),
        ((begun(key="another"),), "or key"),
        ((None,), "cannot be hidden"),
        ((begun(), None), "cannot be hidden"),
        ((begun(), started()), "first manifest"),
        ((begun(imported="b" * 64), first()), "first manifest"),
        ((*BEGIN, first()), "one first manifest"),
        ((*BEGIN, uploaded(), replace(uploaded(), time=0)), "runs back"),
        ((*BEGIN, started(1)), "journal runs back"),
        ((*BEGIN, started(5), anchor(4)), "journal runs back"),
        ((*BEGIN, started(2, platform="sgx")), "kinds of platforms"),
        ((begun(), first(recovery=leaves.Recovery(1, 1))), "recovery keys"),
        ((*BEGIN, recovered("anna"), started(9)), "no recovery key"),
        ((*BEGIN, recovered("anna"), uploaded()), "not followed by its start"),
        ((*BEGIN, recovered("anna"), None), "not followed by its start"),
        ((*BEGIN, recovered("anna"), started(10)), "not followed by its start"),
        ((*BEGIN, recovered("anna"), recovered("anna")), "one of them twice"),
        ((*BEGIN, recovered()), "names no holder"),
        ((*BEGIN, proposed(base=SECOND_NAME)), "another manifest than the one in force"),
        ((*BEGIN, proposed(needed=1)), "another number"),
        ((*BEGIN, proposed(needed=3)), "another number"),
        ((*BEGIN, proposed("dave")), "no permission UpdateManifest"),
        ((*BEGIN, proposed("stranger")), "no user"),
        ((*BEGIN, proposed(certificate=KEYS)), "with this certificate"),
        ((*BEGIN, proposed(), proposed("bob")), "while another one was pending"),
        ((*BEGIN, approved()), "not pending"),
        ((*BEGIN, proposed(), approved(manifest=FIRST_NAME)), "not pending"),
        ((*BEGIN, proposed(), approved(missing=1)), "still have to agree"),
        ((*BEGIN, proposed(), approved("alice")), "still have to agree"),
        ((*BEGIN, proposed(), approved("dave")), "no permission"),
        ((*BEGIN, proposed(), approved(), uploaded()), "did not take effect"),
        ((*BEGIN, proposed(), approved(), None), "did not take effect"),
        ((*BEGIN, proposed(), updated()), "not enough users"),
        ((*BEGIN, updated()), "not enough users"),
        ((*BEGIN, proposed(), approved(), updated(manifest=FIRST_NAME)), "not enough users"),
        ((*BEGIN, proposed(), approved(), updated(base=SECOND_NAME)), "another manifest than"),
        ((*BEGIN, proposed(), approved(), updated(recovery=leaves.Recovery(2, 1))), "recovery"),
        ((*BEGIN, cancelled()), "none was pending"),
        ((*BEGIN, proposed(), cancelled(manifest=FIRST_NAME)), "was not pending"),
        ((*BEGIN, proposed(), cancelled("dave")), "no permission"),
        ((*BEGIN, raised("2")), "lowered"),
        ((*BEGIN, raised("9"), raised("8")), "lowered"),
        ((*BEGIN, raised(name="exact")), "not a package with a security version"),
        ((*BEGIN, raised(name="note")), "no permission"),
        ((*BEGIN, raised(by="carol")), "no permission UpdateSecurityVersion"),
        ((*BEGIN, raised(base=SECOND_NAME)), "another manifest than"),
        ((*BEGIN, raised(versions=())), "no package"),
        ((*BEGIN, raised(versions=(("signed", "4"), ("signed", "5")))), "one of them twice"),
        ((*BEGIN, uploaded("bob")), "no permission WriteSecret"),
        ((*BEGIN, uploaded("alice", "unknown")), "no permission WriteSecret"),
        ((*BEGIN, leaves.SecretsUploaded(time=1, uploads=())), "no secret"),
        ((*OLDER, first()), "one first manifest"),
        ((*OLDER, raised(), proposed(base=SECOND_NAME)), "another manifest than"),
        ((*OLDER, proposed(), approved(missing=1)), "still have to agree"),
    ],
)
def test_what_no_coordinator_may_do_is_refused(said: tuple[Leaf | None, ...], why: str) -> None:
    followed(*said[:-1])
    with pytest.raises(HistoryRefusedError, match=why):
        followed(*said)


@pytest.mark.parametrize(
    ("said", "gaps"),
    [
        (BEGIN, (Gap.NO_QUOTE,)),
        ((begun(imported="b" * 64),), (Gap.OLDER,)),
        ((begun(previous=leaves.PreviousLog("a", 1, KEYS, "lost")),), (Gap.REPLACES,)),
        ((*BEGIN, started(2, quote=KEYS)), ()),
        ((*BEGIN, proposed()), (Gap.NOT_SIGNED,)),
        ((*BEGIN, raised()), (Gap.NOT_SIGNED,)),
        ((*BEGIN, proposed(approval=KEYS)), (Gap.NOT_SIGNED, Gap.NO_APPROVAL)),
        ((*BEGIN, uploaded()), ()),
        ((*BEGIN, None), (Gap.HIDDEN,)),
        ((*OLDER, uploaded("stranger")), (Gap.NO_MANIFEST,)),
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
    assert [Gap.NO_MANIFEST in each for each in gaps] == [False, True, False, *(4 * [True])]


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
    with pytest.raises(HistoryRefusedError, match="another name"):
        followed(*said, objects=objects.get, origin=origin)


def test_an_object_that_is_not_a_manifest_is_refused() -> None:
    with pytest.raises(HistoryRefusedError, match="not a manifest"):
        followed(*BEGIN, objects=lambda _: b"[]")
