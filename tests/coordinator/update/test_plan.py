"""The lines of a plan: each single change of a manifest gives exactly the expected lines."""

import hashlib
import json
from typing import Any

import msgspec
import pytest
from support.cosigner import Cosigner
from support.samples.deployment import user
from support.samples.plans import Deployment, brief, document, encoded, raised
from support.samples.updates import Document, holder_pem

from keyhouse.base.errors import TooLargeError
from keyhouse.coordinator.update.changes.access import user_changes
from keyhouse.coordinator.update.plan import CHANGES
from keyhouse.manifest import Action, ResourceType, User, decode
from keyhouse.manifest.model import LEASE_SECONDS, Role
from keyhouse.wire.plan import plan_digest

WITNESSES = f"witness W {Cosigner.ed25519().verifier} https://w.example\nquorum W\n"
RENEWED = [
    "intermediate-renewed",
    "marble-root-renewed",
    "epoch-begun",
    "certificate-renewed | cert",
    "restart | job | certificates",
    "restart | web | certificates, secrets",
]


@pytest.fixture(scope="module")
def deployed() -> Deployment:
    """A deployment for reads only; ``note`` has a value, ``job`` has two activations."""
    made = Deployment(encoded())
    made.upload(note=b"hello")
    made.activate("job", 2)
    return made


def _merged(content: Document, change: Document) -> None:
    for name, value in change.items():
        if value is None:
            del content[name]
        elif isinstance(value, dict) and isinstance(content.get(name), dict):
            _merged(content[name], value)
        else:
            content[name] = value


def _of_secret(**definition: Any) -> Document:
    return {"Secrets": {"added": definition}}


CASES: dict[str, tuple[Document, list[str]]] = {
    "nothing": ({}, []),
    # Packages
    "a package": (
        {"Packages": {"new": {"UniqueID": "ef" * 32}}},
        ["package-added | new"],
    ),
    "a raised version": (
        {"Packages": {"app": {"SecurityVersion": 4}}},
        ["package-changed | app | SecurityVersion | 3 > 4"],
    ),
    "TCB lists": (
        {
            "Packages": {
                "app": {
                    "AcceptedTCBStatuses": ["UpToDate", "OutOfDate"],
                    "AcceptedAdvisories": ["INTEL-SA-00615"],
                }
            }
        },
        [
            "package-changed | app | AcceptedTCBStatuses |  > UpToDate, OutOfDate",
            "package-changed | app | AcceptedAdvisories |  > INTEL-SA-00615",
        ],
    ),
    "a debug package by another identity": (
        {"Packages": {"tool": {"Debug": True, "UniqueID": "ef" * 32}}},
        [
            "package-changed | tool | Debug | false > true",
            f"package-changed | tool | UniqueID | {'cd' * 32} > {'ef' * 32}",
        ],
    ),
    "a confidential VM": (
        {"Packages": {"new": {"TDX": {"MRTD": "ab" * 48}}}},
        ["package-added | new"],
    ),
    "a confidential VM in place of an enclave": (
        {"Packages": {"tool": {"UniqueID": "", "TDX": {"MRTD": "ab" * 48, "RTMR1": "01" * 48}}}},
        [
            f"package-changed | tool | UniqueID | {'cd' * 32} > ",
            f"package-changed | tool | TDX.MRTD |  > {'ab' * 48}",
            f"package-changed | tool | TDX.RTMR1 |  > {'01' * 48}",
        ],
    ),
    "another kernel": (
        {"Packages": {"vm": {"TDX": {"RTMR1": "04" * 48, "RTMR2": ""}}}},
        [
            f"package-changed | vm | TDX.RTMR1 | {'01' * 48} > {'04' * 48}",
            f"package-changed | vm | TDX.RTMR2 | {'02' * 48} > ",
        ],
    ),
    "a machine of AMD": (
        {
            "Packages": {
                "vm": {
                    "TDX": None,
                    "SNP": {
                        "Measurement": "ab" * 48,
                        "Product": "Genoa",
                        "MinimumTCB": {"Bootloader": 10, "TEE": 0, "SNP": 23, "Microcode": 84},
                        "VMPL": 2,
                        "MinimumGuestSVN": 5,
                        "AliasCheckComplete": True,
                    },
                }
            }
        },
        [
            f"package-changed | vm | TDX.MRTD | {'00' * 48} > ",
            f"package-changed | vm | TDX.RTMR1 | {'01' * 48} > ",
            f"package-changed | vm | TDX.RTMR2 | {'02' * 48} > ",
            f"package-changed | vm | SNP.Measurement |  > {'ab' * 48}",
            "package-changed | vm | SNP.Product |  > Genoa",
            "package-changed | vm | SNP.MinimumTCB.Bootloader |  > 10",
            "package-changed | vm | SNP.MinimumTCB.TEE |  > 0",
            "package-changed | vm | SNP.MinimumTCB.SNP |  > 23",
            "package-changed | vm | SNP.MinimumTCB.Microcode |  > 84",
            "package-changed | vm | SNP.VMPL | 0 > 2",
            "package-changed | vm | SNP.MinimumGuestSVN | 0 > 5",
            "package-changed | vm | SNP.AliasCheckComplete | false > true",
        ],
    ),
    "an infrastructure": (
        {"Infrastructures": {"cloud": {"QESVN": 2}}},
        ["infrastructure-added | cloud"],
    ),
    # Marbles
    "a marble": ({"Marbles": {"new": {"Package": "app"}}}, ["marble-added | new"]),
    "no marble": ({"Marbles": {"job": None}}, ["marble-removed | job"]),
    "another package": (
        {"Marbles": {"job": {"Package": "app"}}},
        ["marble-changed | job | Package | tool > app"],
    ),
    "parameters": (
        {
            "Marbles": {
                "web": {
                    "Parameters": {
                        "Env": {"KEY": "x", "OWN": None, "B": "y"},
                        "Files": {"/cert": None},
                        "Argv": ["./web", "-v"],
                    }
                }
            }
        },
        [
            "marble-changed | web | Parameters.Files | /cert",
            "marble-changed | web | Parameters.Env | B, KEY, OWN",
            "marble-changed | web | Parameters.Argv",
        ],
    ),
    "a higher limit": (
        {"Marbles": {"job": {"MaxActivations": 9}}},
        ["marble-changed | job | MaxActivations | 5 > 9"],
    ),
    "a limit that is reached": (
        {"Marbles": {"job": {"MaxActivations": 2}}},
        ["marble-changed | job | MaxActivations | 5 > 2", "limit-reached | job |  > 2"],
    ),
    "no binding": (
        {"Marbles": {"web": {"DisableSecretBinding": True}}},
        [
            "marble-changed | web | DisableSecretBinding | false > true",
            "derived-keys-changed | web | own",
        ],
    ),
    "no tag": ({"Marbles": {"web": {"TLS": []}}}, ["marble-changed | web | TLS | inside > "]),
    # TLS
    "a tag": ({"TLS": {"new": {}}}, ["tls-added | new"]),
    "a port": (
        {"TLS": {"inside": {"Incoming": [{"Port": "7001"}]}}},
        ["tls-changed | inside | Incoming"],
    ),
    # Secrets
    "a generated secret": (
        _of_secret(Type="symmetric-key", Size=128, Shared=True),
        ["secret-added | added |  > generated"],
    ),
    "a derived secret": (
        _of_secret(Type="symmetric-key", Size=128),
        ["secret-added | added |  > derived"],
    ),
    "a certificate of each workload": (
        _of_secret(Type="cert-ed25519"),
        ["secret-added | added |  > issued"],
    ),
    "a secret to upload": (
        _of_secret(Type="plain", UserDefined=True),
        ["secret-added | added |  > uploaded"],
    ),
    "a secret that the manifest gives": (
        _of_secret(Type="plain", UserDefined=True, Private="Q0FOQVJZ"),
        ["secret-added | added |  > given"],
    ),
    "another size": (
        {"Secrets": {"shared": {"Size": 256}}},
        [
            "secret-changed | shared | Size | 128 > 256",
            "value-lost | shared",
            "value-generated | shared",
        ],
    ),
    "another size of keys of each workload": (
        {"Secrets": {"own": {"Size": 128}}},
        ["secret-changed | own | Size | 256 > 128", "value-generated | own"],
    ),
    "another template": (
        {"Secrets": {"cert": {"Cert": {"DNSNames": ["a.example"]}}}},
        ["secret-changed | cert | Cert"],
    ),
    "another validity": (
        {"Secrets": {"cert": {"ValidFor": 30}}},
        [
            "secret-changed | cert | ValidFor | 0 > 30",
            "value-lost | cert",
            "value-generated | cert",
        ],
    ),
    "another type of what was uploaded": (
        {"Secrets": {"note": {"Type": "symmetric-key", "Size": 128}}},
        [
            "secret-changed | note | Type | plain > symmetric-key",
            "secret-changed | note | Size | 0 > 128",
            "value-lost | note",
            "value-needed | note",
        ],
    ),
    "another type of what was not uploaded": (
        {"Secrets": {"other": {"Type": "symmetric-key", "Size": 128}}},
        [
            "secret-changed | other | Type | plain > symmetric-key",
            "secret-changed | other | Size | 0 > 128",
            "value-needed | other",
        ],
    ),
    "a value for a secret that stays": (
        {"Secrets": {"note": {"Private": "Q0FOQVJZ"}}},
        ["secret-changed | note | Private"],
    ),
    "no own secret": (
        {
            "Secrets": {"note": None},
            "Roles": {"write": {"ResourceNames": ["other"]}},
        },
        [
            "secret-removed | note",
            "value-lost | note",
            "right-lost | writer | ReadSecret |  > Secrets | note",
            "right-lost | writer | WriteSecret |  > Secrets | note",
            "role-changed | write | ResourceNames",
        ],
    ),
    # Users and roles
    "a user without a role": (
        {"Users": {"new": {"Certificate": user("new").pem.decode()}}},
        ["user-added | new"],
    ),
    "a user who may update": (
        {"Users": {"new": {"Certificate": user("new").pem.decode(), "Roles": ["admin"]}}},
        ["user-added | new", "right-gained | new | UpdateManifest |  > Manifest"],
    ),
    "no user": (
        {"Users": {"releaser": None}},
        [
            "user-removed | releaser",
            "right-lost | releaser | UpdateSecurityVersion |  > Packages | app",
        ],
    ),
    "another certificate": (
        {"Users": {"alice": {"Certificate": user("next").pem.decode()}}},
        ["user-changed | alice | Certificate"],
    ),
    "another role": (
        {"Users": {"writer": {"Roles": ["release", "write"]}}},
        [
            "user-changed | writer | Roles | write > release, write",
            "right-gained | writer | UpdateSecurityVersion |  > Packages | app",
        ],
    ),
    "another action": (
        {"Roles": {"write": {"Actions": ["WriteSecret"]}}},
        [
            "right-lost | writer | ReadSecret |  > Secrets | note, other",
            "role-changed | write | Actions",
        ],
    ),
    "a role of nobody": (
        {"Roles": {"idle": {"ResourceType": "Manifest", "Actions": []}}},
        ["role-added | idle"],
    ),
    # Recovery
    "a recovery key": (
        {"RecoveryKeys": {"rk1": holder_pem("rk1")}},
        ["recovery-key-added | rk1", "shares-renewed | 1 > 2"],
    ),
    "another recovery key": (
        {"RecoveryKeys": {"rk0": holder_pem("other")}},
        ["recovery-key-changed | rk0", "shares-renewed | 1 > 1"],
    ),
    "no recovery keys": (
        {"RecoveryKeys": None},
        ["recovery-key-removed | rk0", "shares-renewed | 1 > 0"],
    ),
    # Config
    "a threshold": (
        {"Config": {"UpdateThreshold": 0}},
        ["config-changed | UpdateThreshold | 1 > 0"],
    ),
    "a seal mode": (
        {"Config": {"SealMode": "Disabled"}},
        ["config-changed | SealMode | ProductKey > Disabled"],
    ),
    "feature gates": (
        {"Config": {"FeatureGates": ["MonotonicCounter"]}},
        ["gate-opened | MonotonicCounter"],
    ),
    "replicas": (
        {"Config": {"Replicas": {"Code": [{"UniqueID": "ab" * 32}]}}},
        [f"config-changed | Replicas.Code |  > UniqueID {'ab' * 32}"],
    ),
    "witnesses": (
        {
            "Config": {
                "Transparency": {
                    "Witnesses": WITNESSES,
                    "Serve": "Witnessed",
                    "LeaseSeconds": 60,
                    "AnchorBefore": ["LimitedActivations", "Counters"],
                }
            }
        },
        [
            f"config-changed | Transparency.Witnesses |  > {WITNESSES}",
            "config-changed | Transparency.Serve | Always > Witnessed",
            f"config-changed | Transparency.LeaseSeconds | {LEASE_SECONDS} > 60",
            "config-changed | Transparency.AnchorBefore |  > Counters, LimitedActivations",
        ],
    ),
    "a new root secret": (
        {"Config": {"RotateRootSecret": True}},
        [
            "value-replaced | own",
            "value-replaced | shared",
            "config-changed | RotateRootSecret | false > true",
            "root-secret-rotated",
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_change_alone_gives_exactly_its_lines(deployed: Deployment, case: str) -> None:
    change, expected = CASES[case]
    found = deployed.plan(encoded(lambda content: _merged(content, change)))
    assert [brief(each) for each in found.plan.changes] == expected
    for each in (*found.plan.changes, *found.plan.renewals):
        assert each.text
        assert "CANARY" not in each.text
        assert "Q0FOQVJZ" not in each.text
        if each.name:
            assert each.name in each.text


def test_what_every_full_update_regenerates_is_listed_apart(deployed: Deployment) -> None:
    plan = deployed.plan(encoded()).plan
    assert [brief(each) for each in plan.renewals] == RENEWED
    assert plan.kept == ("note", "other", "own", "shared")
    assert (plan.users, plan.needed) == (("alice",), 1)


@pytest.mark.parametrize(
    ("case", "news"),
    [
        ("a raised version", "certificates, package, secrets"),
        ("parameters", "certificates, parameters"),
        ("a port", "certificates, secrets, TLS"),
        ("no binding", "certificates, secrets"),
        ("another size of keys of each workload", "certificates, secrets"),
    ],
)
def test_workloads_have_to_start_again_for_what_is_new_for_them(
    deployed: Deployment, case: str, news: str
) -> None:
    plan = deployed.plan(encoded(lambda content: _merged(content, CASES[case][0]))).plan
    restarts = [brief(each) for each in plan.renewals if each.what == "restart"]
    assert restarts == ["restart | job | certificates", f"restart | web | {news}"]


def test_what_the_digest_does_not_cover_stands_beside_the_plan(deployed: Deployment) -> None:
    def change(content: Document) -> None:
        content["Users"]["alice"]["Roles"] = []
        content["Infrastructures"] = {"cloud": {}}
        content["Config"] = {}

    found = deployed.plan(encoded(change))
    assert found.notes[:1] == ("it leaves no user who may update the manifest: it is final",)
    assert "nothing enforces Infrastructures" in found.notes
    assert found.not_uploaded == ("other",)
    assert (found.missing_acknowledgments, found.missing_users) == (1, ("alice",))


def test_security_versions_alone_change_them_and_renew_what_the_ca_issued(
    deployed: Deployment,
) -> None:
    plan = deployed.plan(raised(app=5), by="releaser").plan
    assert plan.kind == "packages"
    assert [brief(each) for each in plan.changes] == [
        "package-changed | app | SecurityVersion | 3 > 5"
    ]
    assert [brief(each) for each in plan.renewals] == [
        "intermediate-renewed",
        "marble-root-renewed",
        "certificate-renewed | cert",
        "restart | job | certificates",
        "restart | web | certificates, package, secrets",
    ]
    assert plan.kept == ("note", "other", "own", "shared")
    assert (plan.users, plan.needed) == ((), 0)
    assert deployed.plan(raised(app=3), by="releaser").plan.changes == ()


def test_a_raised_version_that_a_manifest_does_not_have_is_lowered_by_it() -> None:
    deployed = Deployment(encoded())
    deployed.do(deployed.prepare(raised(app=9), by="releaser"))
    found = deployed.plan(encoded())
    assert found.plan.versions == {"app": 9}
    assert [brief(each) for each in found.plan.changes] == [
        "package-changed | app | SecurityVersion | 9 > 3"
    ]
    assert "lower" in found.plan.changes[0].text
    assert found.notes[0] == "it lowers SecurityVersion of app from 9 to 3"


def test_a_raised_version_that_the_manifest_states_is_no_change() -> None:
    deployed = Deployment(encoded())
    deployed.do(deployed.prepare(raised(app=9), by="releaser"))
    content = document()
    content["Packages"]["app"]["SecurityVersion"] = 9
    found = deployed.plan(json.dumps(content).encode())
    assert found.plan.changes == ()
    assert not any("lowers" in note for note in found.notes)


def test_another_spelling_of_the_same_manifest_changes_nothing(deployed: Deployment) -> None:
    spelled = json.dumps({name.lower(): part for name, part in document().items()}, indent=3)
    plan = deployed.plan(spelled.encode()).plan
    assert plan.changes == ()
    assert plan.manifest != plan.base


# --- the digest ---


def test_the_digest_is_the_one_that_the_reference_describes(deployed: Deployment) -> None:
    found = deployed.plan(encoded(lambda content: _merged(content, CASES["no own secret"][0])))
    plan = json.loads(msgspec.json.encode(found))["plan"]
    for each in (*plan["changes"], *plan["renewals"]):
        assert each.pop("text")
    canonical = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    whole = b"keyhouse plan v1\0" + canonical.encode()
    assert found.digest == hashlib.sha256(whole).hexdigest()


def test_other_words_are_no_other_plan_and_other_facts_are(deployed: Deployment) -> None:
    plan = deployed.plan(encoded(lambda content: _merged(content, CASES["a threshold"][0]))).plan
    (one,) = plan.changes
    replace = msgspec.structs.replace
    reworded = replace(plan, changes=(replace(one, text="better words"),))
    assert plan_digest(reworded) == plan_digest(plan)
    others = [replace(plan, changes=(replace(one, after="2"),))]
    others += [replace(plan, changes=()), replace(plan, renewals=()), replace(plan, kept=())]
    others += [replace(plan, needed=2), replace(plan, users=()), replace(plan, versions={})]
    others += [replace(plan, base="00"), replace(plan, manifest="00"), replace(plan, kind="x")]
    assert len({plan_digest(each) for each in (plan, *others)}) == 1 + len(others)


# --- limits of review ---


def test_a_plan_of_too_many_changes_is_refused(deployed: Deployment) -> None:
    def change(content: Document) -> None:
        many = {f"s{number}": {"Type": "plain", "UserDefined": True} for number in range(CHANGES)}
        content["Secrets"] |= many
        content["Config"]["UpdateThreshold"] = 0

    with pytest.raises(TooLargeError, match=r"\b20000\b"):
        deployed.plan(encoded(change))


def test_rights_that_cross_in_too_many_ways_are_refused() -> None:
    old = decode(encoded())
    names = tuple(f"{number:0>1000}" for number in range(1000))
    roles = {"many": Role(ResourceType.SECRETS, names, (Action.READ_SECRET,))}
    few, many = (
        {f"u{number}": User(b"x", ("many",)) for number in range(count)} for count in (15, 18)
    )
    replace = msgspec.structs.replace
    assert list(user_changes(old, replace(old, roles=old.roles | roles, users=few)))
    with pytest.raises(TooLargeError):
        list(user_changes(old, replace(old, roles=old.roles | roles, users=many)))
