"""Each rule of the manifest format, with the exact place that it names."""

import json
from collections.abc import Sequence

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.samples.manifests import (
    Change,
    Document,
    changed,
    fully_checked,
    rsa_public_pem,
    sample,
)

from keyhouse.base.errors import InvalidError, Problem


def problems_of(raw: bytes) -> tuple[Problem, ...]:
    try:
        fully_checked(raw)
    except InvalidError as invalid:
        return invalid.problems
    return ()


def places_of(raw: bytes) -> list[str]:
    return [problem.at for problem in problems_of(raw)]


def put(path: str, value: object) -> Change:
    """Return a change that sets ``path``, steps separated by blanks; a number is an index."""

    def change(document: Document) -> None:
        *outer, last = (int(step) if step.isdecimal() else step for step in path.split())
        place: object = document
        for step in outer:
            if isinstance(place, dict):
                place = place.setdefault(step, {})
            elif isinstance(place, list):
                place = place[int(step)]
        place[last] = value  # type: ignore[index]

    return change


def drop(path: str) -> Change:
    def change(document: Document) -> None:
        *outer, last = path.split()
        place = document
        for step in outer:
            place = place[step]
        del place[last]

    return change


def all_of(*changes: Change) -> Change:
    def change(document: Document) -> None:
        for each in changes:
            each(document)

    return change


def secret(**definition: object) -> Change:
    return put("Secrets new", {key.replace("_", ""): value for key, value in definition.items()})


def template(**fields: object) -> Change:
    return secret(Type="cert-ecdsa", Size=256, Shared=True, Cert=fields)


def file(data: object) -> Change:
    return put("Marbles web Parameters Files /x", data)


def env(data: object) -> Change:
    return put("Marbles web Parameters Env X", data)


def ec_public_pem() -> str:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


FILE = 'Marbles.web.Parameters.Files["/x"]'
ENV = "Marbles.web.Parameters.Env.X"
HEX = "ab" * 32
ALICE = "Users.alice.Certificate"
IN = "TLS internal Incoming 0"
PEM_ALICE = json.loads(sample("full"))["Users"]["alice"]["Certificate"]

RULES: list[tuple[str, Change, Sequence[str]]] = [
    (
        "V1",
        all_of(
            put("Packages", {}),
            put("Marbles", {}),
            put("Roles", {}),
            put("Users", {}),
            put("Config", {}),
        ),
        ["Marbles", "Packages"],
    ),
    ("V2", put("Marbles", {}), ["Marbles"]),
    ("V3", put("Marbles web Package", "nobody"), ["Marbles.web.Package"]),
    ("V3", drop("Marbles web Package"), ["Marbles.web.Package"]),
    ("V4", put("Packages backend SignerID", HEX), ["Packages.backend"]),
    ("V4", put("Packages backend ProductID", 0), ["Packages.backend"]),
    ("V4", put("Packages backend SecurityVersion", 0), ["Packages.backend"]),
    ("V5", drop("Packages frontend SignerID"), ["Packages.frontend.SignerID"]),
    ("V5", drop("Packages frontend ProductID"), ["Packages.frontend.ProductID"]),
    ("V5", drop("Packages frontend SecurityVersion"), ["Packages.frontend.SecurityVersion"]),
    (
        "V5",
        put("Packages unused", {}),
        [
            "Packages.unused.ProductID",
            "Packages.unused.SecurityVersion",
            "Packages.unused.SignerID",
        ],
    ),
    ("V6", put("Marbles web TLS 1", "nothing"), ["Marbles.web.TLS[1]"]),
    ("V7", put(f"{IN} Port", ""), ["TLS.internal.Incoming[0].Port"]),
    ("V7", put(f"{IN} Port", "70000"), ["TLS.internal.Incoming[0].Port"]),
    ("V7", put(f"{IN} Port", "http"), ["TLS.internal.Incoming[0].Port"]),
    ("V7", put(f"{IN} Port", "+80"), ["TLS.internal.Incoming[0].Port"]),
    ("V7", put(f"{IN} Port", "٣"), ["TLS.internal.Incoming[0].Port"]),
    ("V8", put("TLS public Incoming 0 Cert", "nothing"), ["TLS.public.Incoming[0].Cert"]),
    ("V8", put("TLS public Incoming 0 Cert", "diskKey"), ["TLS.public.Incoming[0].Cert"]),
    (
        "V9",
        put("TLS public Incoming 0 DisableClientAuth", value=False),
        ["TLS.public.Incoming[0].DisableClientAuth"],
    ),
    ("V10", put(f"{IN} DisableClientAuth", value=True), ["TLS.internal.Incoming[0].Cert"]),
    (
        "V11",
        put("TLS internal Outgoing 1", {}),
        ["TLS.internal.Outgoing[1].Addr", "TLS.internal.Outgoing[1].Port"],
    ),
    ("V12", put("Users alice Certificate", ""), [ALICE]),
    ("V13", put("Users bob Roles 1", "nothing"), ["Users.bob.Roles[1]"]),
    (
        "V14",
        put("Users bob Certificate", PEM_ALICE.replace("\n", "\r\n")),
        ["Users.bob.Certificate"],
    ),
    (
        "V15",
        put("Roles frontendRelease ResourceNames 0", "x"),
        ["Roles.frontendRelease.ResourceNames[0]"],
    ),
    (
        "V15",
        put("Roles secretReader ResourceNames 0", "x"),
        ["Roles.secretReader.ResourceNames[0]"],
    ),
    (
        "V16",
        put("Roles frontendRelease Actions 0", "ReadSecret"),
        ["Roles.frontendRelease.Actions[0]"],
    ),
    ("V16", put("Roles secretReader Actions 0", "ReadSecrets"), ["Roles.secretReader.Actions[0]"]),
    (
        "V16",
        put("Roles secretReader Actions 0", "UpdateManifest"),
        ["Roles.secretReader.Actions[0]"],
    ),
    (
        "V16",
        put("Roles unused", {"ResourceType": "Manifest", "Actions": [""]}),
        ["Roles.unused.Actions[0]"],
    ),
    (
        "V17",
        put("Roles secretReader Actions", ["writesecret"]),
        ["Roles.secretReader.ResourceNames[0]", "Roles.secretReader.ResourceNames[1]"],
    ),
    (
        "V18",
        put("Roles secretReader ResourceNames 0", "diskKey"),
        ["Roles.secretReader.ResourceNames[0]"],
    ),
    ("V19", put("Roles manifestAdmin ResourceNames", ["x"]), ["Roles.manifestAdmin.ResourceNames"]),
    ("V20", put("Roles secretReader ResourceType", "secrets"), ["Roles.secretReader.ResourceType"]),
    ("V20", drop("Roles secretReader ResourceType"), ["Roles.secretReader.ResourceType"]),
    ("V21", put("Secrets rsaCert ValidFor", 3), ["Secrets.rsaCert.ValidFor"]),
    ("V22", put("Secrets diskKey Type", "Symmetric-Key"), ["Secrets.diskKey.Type"]),
    ("V22", put("Secrets new", {}), ["Secrets.new.Type"]),
    ("V23", put("Config UpdateThreshold", 4), ["Config.UpdateThreshold"]),
    ("V24", put("Config SealMode", "productkey"), ["Config.SealMode"]),
    ("V25", put("Config FeatureGates 0", "Everything"), ["Config.FeatureGates[0]"]),
    ("V25", put("Config FeatureGates 1", "azurehsmsealing"), ["Config.FeatureGates[1]"]),
    ("V26", put("Config RecoveryThreshold", 4), ["Config.RecoveryThreshold"]),
    ("V27", put("Config RecoveryThreshold", 1), ["Config.RecoveryThreshold"]),
    ("G1", secret(Type="plain"), ["Secrets.new.UserDefined"]),
    ("G1", secret(Type="symmetric-key"), ["Secrets.new.Size"]),
    ("G1", secret(Type="symmetric-key", Size=12), ["Secrets.new.Size"]),
    ("G1", secret(Type="symmetric-key", Size=65288), ["Secrets.new.Size"]),
    ("G1", secret(Type="symmetric-key", Size=8 * 2**20 + 8, Shared=True), ["Secrets.new.Size"]),
    ("G1", secret(Type="symmetric-key", Size=12, UserDefined=True), ["Secrets.new.Size"]),
    (
        "G1",
        secret(Type="symmetric-key", Size=12, UserDefined=True, Private="AAA="),
        ["Secrets.new.Private", "Secrets.new.Size"],
    ),
    ("G1", secret(Type="cert-rsa", Size=1023), ["Secrets.new.Size"]),
    ("G1", secret(Type="cert-rsa", Size=8193), ["Secrets.new.Size"]),
    ("G1", secret(Type="cert-rsa"), ["Secrets.new.Size"]),
    ("G1", secret(Type="cert-ecdsa", Size=255), ["Secrets.new.Size"]),
    ("G1", secret(Type="cert-ed25519", Size=256), ["Secrets.new.Size"]),
    ("G1", secret(Type="cert-rsa", Size=8192), ["Secrets"]),
    (
        "G1",
        put(
            "Secrets",
            {
                f"k{i}": {"Type": "symmetric-key", "Size": 8 * 2**20, "Shared": True}
                for i in range(17)
            },
        ),
        ["Secrets"],
    ),
    (
        "G1",
        lambda document: document["Secrets"].update({"": {"Type": "plain", "UserDefined": True}}),
        ['Secrets[""]'],
    ),
    ("G1", secret(Type="cert-ecdsa", Size=256, Cert=""), ["Secrets.new.Cert"]),
    ("G1", secret(Type="cert-ecdsa", Size=256, Cert="AAAA"), ["Secrets.new.Cert"]),
    ("G1", secret(Type="cert-ecdsa", Size=256, ValidFor=3_000_000), ["Secrets.new.ValidFor"]),
    ("G1", secret(Type="cert-ecdsa", Size=256, ValidFor=2**64 - 1), ["Secrets.new.ValidFor"]),
    ("G1", secret(Type="symmetric-key", Size=128, Private="AAAA"), ["Secrets.new.Private"]),
    (
        "G1",
        secret(Type="symmetric-key", Size=128, UserDefined=True, Private="AAAA"),
        ["Secrets.new.Private"],
    ),
    (
        "G1",
        secret(Type="plain", UserDefined=True, Private="AAAA", Public="AAAB"),
        ["Secrets.new.Public"],
    ),
    ("G1", template(NotAfter="2026-03-01T12:00:00Z"), ["Secrets.new.Cert.NotAfter"]),
    ("G1", template(NotAfter="2035-01-01 00:00:00Z"), ["Secrets.new.Cert.NotAfter"]),
    (
        "G1",
        template(NotAfter="2035-01-01T00:00:00.0123456789Z"),
        ["Secrets.new.Cert.NotAfter"],
    ),
    ("G1", template(DNSNames=["a b", "c"]), ["Secrets.new.Cert.DNSNames[0]"]),
    (
        "G1",
        template(ExcludedIPRanges=[{"IP": "fe80::%1", "Mask": [255] * 8 + [0] * 8}]),
        ["Secrets.new.Cert.ExcludedIPRanges[0]"],
    ),
    (
        "V21",
        secret(
            Type="cert-ecdsa",
            Size=256,
            UserDefined=True,
            ValidFor=1,
            Cert={"NotAfter": "2035-01-01T00:00:00Z"},
        ),
        ["Secrets.new.ValidFor"],
    ),
    (
        "G1",
        secret(Type="cert-ecdsa", Size=256, UserDefined=True, Cert="AAAA"),
        ["Secrets.new.Cert"],
    ),
    ("G1", template(NotAfter="2035-01-01T00:00:00"), ["Secrets.new.Cert.NotAfter"]),
    ("G1", template(NotAfter="2035-02-29T00:00:00Z"), ["Secrets.new.Cert.NotAfter"]),
    ("G1", template(NotAfter="9999-12-31T23:59:59-01:00"), ["Secrets.new.Cert.NotAfter"]),
    ("G1", template(Subject={"CommonName": "x" * 65}), ["Secrets.new.Cert.Subject.CommonName"]),
    ("G1", template(Subject={"Country": ["D"]}), ["Secrets.new.Cert.Subject.Country[0]"]),
    (
        "G1",
        template(Subject={"ExtraNames": [{"Type": [1, 40], "Value": "x"}]}),
        ["Secrets.new.Cert.Subject.ExtraNames[0].Type"],
    ),
    ("G1", template(DNSNames=["bücher.example"]), ["Secrets.new.Cert.DNSNames[0]"]),
    ("G1", template(IPAddresses=["10.0.0.256"]), ["Secrets.new.Cert.IPAddresses[0]"]),
    ("G1", template(URIs=[None]), ["Secrets.new.Cert.URIs[0]"]),
    ("G1", template(KeyUsage=512), ["Secrets.new.Cert.KeyUsage"]),
    ("G1", template(KeyUsage=128), ["Secrets.new.Cert.KeyUsage"]),
    ("G1", template(ExtKeyUsage=[1, 14]), ["Secrets.new.Cert.ExtKeyUsage[1]"]),
    ("G1", template(UnknownExtKeyUsage=[[3, 1]]), ["Secrets.new.Cert.UnknownExtKeyUsage[0]"]),
    ("G1", template(MaxPathLen=1), ["Secrets.new.Cert.MaxPathLen"]),
    ("G1", template(SignatureAlgorithm=4), ["Secrets.new.Cert.SignatureAlgorithm"]),
    ("G1", template(Policies=["1.2.x"]), ["Secrets.new.Cert.Policies[0]"]),
    ("G1", template(PolicyIdentifiers=[[1]]), ["Secrets.new.Cert.PolicyIdentifiers[0]"]),
    (
        "G1",
        template(PermittedIPRanges=[{"IP": "10.0.0.1", "Mask": "/wAAAA=="}]),
        ["Secrets.new.Cert.PermittedIPRanges[0]"],
    ),
    (
        "G1",
        template(ExcludedIPRanges=[{"IP": "10.0.0.0", "Mask": "/wD/AA=="}]),
        ["Secrets.new.Cert.ExcludedIPRanges[0]"],
    ),
    (
        "G1",
        template(ExtraExtensions=[{"Id": [2, 5, 29, 17], "Value": ""}]),
        ["Secrets.new.Cert.ExtraExtensions[0].Id"],
    ),
    (
        "G1",
        template(ExtraExtensions=[{"Id": [1, 3, 9903, 2, 1], "Value": ""}]),
        ["Secrets.new.Cert.ExtraExtensions[0].Id"],
    ),
    ("G1", template(NotAfter="2035-01-01T00:00:00+24:00"), ["Secrets.new.Cert.NotAfter"]),
    (
        "G1",
        template(ExtraExtensions=[{"Id": [1, 2, 3], "Value": ""}, {"Id": [1, 2, 3], "Value": ""}]),
        ["Secrets.new.Cert.ExtraExtensions[1].Id"],
    ),
    (
        "G1",
        template(ExtraExtensions=[{"Id": [2, 5, 29, 35], "Value": ""}]),
        ["Secrets.new.Cert.ExtraExtensions[0].Id"],
    ),
    (
        "G1",
        template(PermittedIPRanges=[{"IP": "localhost", "Mask": "/wAAAA=="}]),
        ["Secrets.new.Cert.PermittedIPRanges[0]"],
    ),
    (
        "G1",
        template(PermittedIPRanges=[{"IP": "10.0.0.0", "Mask": "/wA="}]),
        ["Secrets.new.Cert.PermittedIPRanges[0]"],
    ),
    ("G1", template(MaxPathLen=-2), ["Secrets.new.Cert.MaxPathLen"]),
    (
        "G1",
        template(Subject={"Names": [1], "Country": ["DE", "D1"]}),
        ["Secrets.new.Cert.Subject.Country[1]"],
    ),
    (
        "G1",
        secret(Type="plain", UserDefined=True, Public="AAAA"),
        ["Secrets.new.Public"],
    ),
    ("G4", put("Secrets apiToken Private", "YQBi"), ["Secrets.apiToken.Private"]),
    ("G2", put("RecoveryKeys rk1", "hello"), ["RecoveryKeys.rk1"]),
    ("G2", put("RecoveryKeys rk1", ec_public_pem()), ["RecoveryKeys.rk1"]),
    ("G2", put("RecoveryKeys rk1", rsa_public_pem(1024)), ["RecoveryKeys.rk1"]),
    ("G2", put("RecoveryKeys rk1", PEM_ALICE), ["RecoveryKeys.rk1"]),
    (
        "G2",
        put("RecoveryKeys", {f"k{i}": rsa_public_pem(2048) for i in range(256)}),
        ["RecoveryKeys"],
    ),
    ("G3", put("Users alice Certificate", "hello"), [ALICE]),
    ("G3", put("Users alice Certificate", rsa_public_pem(2048)), [ALICE]),
    ("G3", put("Users alice Certificate", PEM_ALICE.replace("MII", "AII", 1)), [ALICE]),
    ("G3", put("Users alice Certificate", PEM_ALICE.replace("-----END", "")), [ALICE]),
    ("G4", file("{{ hex .Secrets.nothing }}"), [FILE]),
    ("G4", file("{{ string .Secrets.apiToken }}"), [FILE]),
    ("G4", file("{{ pem .Secrets.clusterKey.Cert }}"), [FILE]),
    ("G4", file("{{ if true }}"), [FILE]),
    ("G4", file({"Data": "e3s=", "Encoding": "base64"}), [FILE]),
    ("G4", file({"Data": "xx", "Encoding": "hex"}), [FILE]),
    ("G4", file({"Data": "a a", "Encoding": "hex"}), [FILE]),
    ("G4", file({"Data": "", "Encoding": "utf-8"}), [FILE]),
    ("G4", put("Marbles web Parameters Files", {"": "x"}), ['Marbles.web.Parameters.Files[""]']),
    ("G4", env("{{ raw .Secrets.clusterKey }}"), [ENV]),
    ("G4", env("a\0b"), [ENV]),
    ("G4", env({"Data": "AA==", "Encoding": "BASE64", "NoTemplates": True}), [ENV]),
    ("G4", put("Marbles web Parameters Env", {"A=B": "x"}), ['Marbles.web.Parameters.Env["A=B"]']),
    ("G4", put("Marbles web Parameters Argv", ["a", "\0"]), ["Marbles.web.Parameters.Argv[1]"]),
    # Recommendations beyond the numbered rules
    ("hex", put("Packages backend UniqueID", HEX[:-2]), ["Packages.backend.UniqueID"]),
    ("hex", put("Packages frontend SignerID", "0x" + HEX[2:]), ["Packages.frontend.SignerID"]),
    (
        "status",
        put("Packages backend AcceptedTCBStatuses 1", "uptodate"),
        ["Packages.backend.AcceptedTCBStatuses[1]"],
    ),
    ("port", put("TLS public Incoming 0 Port", "7000"), ["Marbles.web.TLS[1]"]),
    (
        "port",
        put("TLS internal Incoming", [{"Port": "1"}, {"Port": "1"}]),
        ["TLS.internal.Incoming[1].Port"],
    ),
    ("unknown", put("Packages backend SignerId2", 1), ["Packages.backend.SignerId2"]),
    ("unknown", put("Secretz", {}), ["Secretz"]),
    ("repeated", put("packages", None), ["Packages"]),
    ("repeated", put("Marbles web package", None), ["Marbles.web.Package"]),
    ("type", put("Packages", []), ["Packages"]),
    ("type", put("Packages backend ProductID", "1"), ["Packages.backend.ProductID"]),
    ("type", put("Packages backend ProductID", 1.0), ["Packages.backend.ProductID"]),
    ("type", put("Packages backend ProductID", -1), ["Packages.backend.ProductID"]),
    ("type", put("Packages backend ProductID", 2**64), ["Packages.backend.ProductID"]),
    ("type", put("Infrastructures cloudA QESVN", 2**16), ["Infrastructures.cloudA.QESVN"]),
    ("type", put("Infrastructures cloudA RootCA", "AwN"), ["Infrastructures.cloudA.RootCA"]),
    ("type", file(None), [FILE]),
    ("type", env(5), [ENV]),
    ("type", template(URIs=["spiffe://a/b"]), ["Secrets.new.Cert.URIs[0]"]),
]


@pytest.mark.parametrize(
    ("rule", "change", "places"), RULES, ids=[f"{n}-{row[0]}" for n, row in enumerate(RULES)]
)
def test_a_broken_rule_is_named_with_its_place(
    rule: str, change: Change, places: Sequence[str]
) -> None:
    del rule  # it is the name of the case
    found = places_of(changed(change))
    if places == ["Secrets"]:  # what names the replaced secrets breaks too
        assert "Secrets" in found
    else:
        assert found == list(places)


def test_every_rule_has_a_case() -> None:
    numbered = {f"V{n}" for n in range(1, 28)} | {f"G{n}" for n in range(1, 5)}
    assert numbered <= {rule for rule, _, _ in RULES}


def test_every_problem_says_what_is_wrong() -> None:
    for _, change, _ in RULES:
        for problem in problems_of(changed(change)):
            assert problem.problem
            assert not problem.problem.endswith(".")
            assert "Traceback" not in str(problem)


@pytest.mark.parametrize(
    ("change", "at", "meant"),
    [
        (put("Marbles web Package", "frontent"), "Marbles.web.Package", '"frontend"'),
        (put("Marbles web TLS", ["publik"]), "Marbles.web.TLS[0]", '"public"'),
        (put("Users bob Roles", ["SecretManager"]), "Users.bob.Roles[0]", '"secretManager"'),
        (
            put("Roles secretReader ResourceNames", ["apitoken"]),
            "Roles.secretReader.ResourceNames[0]",
            '"apiToken"',
        ),
        (
            put("Roles frontendRelease ResourceNames", ["front-end"]),
            "Roles.frontendRelease.ResourceNames[0]",
            '"frontend"',
        ),
        (
            put("Roles secretReader Actions", ["ReadSecrets"]),
            "Roles.secretReader.Actions[0]",
            "ReadSecret",
        ),
        (
            put("Roles secretReader ResourceType", "Secret"),
            "Roles.secretReader.ResourceType",
            "Secrets",
        ),
        (
            put("TLS public Incoming 0 Cert", "apiCrt"),
            "TLS.public.Incoming[0].Cert",
            '"apiCert"',
        ),
        (
            put("Marbles web Parameters Env", {"K": "{{ hex .Secrets.diskKye }}"}),
            "Marbles.web.Parameters.Env.K",
            '"diskKey"',
        ),
        (
            put("Marbles web Parameters Env", {"K": "{{ pem .MarbleRun.MarbleCrt.Cert }}"}),
            "Marbles.web.Parameters.Env.K",
            "MarbleCert",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_name_that_is_misspelt_is_recognized(change: Change, at: str, meant: str) -> None:
    found = {problem.at: problem.hint for problem in problems_of(changed(change))}

    assert found[at] == f"did you mean {meant}?"


def test_names_are_compared_for_the_first_problems_only() -> None:
    wrong = [f"apiTokem{number}" for number in range(2_000)]
    problems = problems_of(changed(put("Roles secretReader ResourceNames", wrong)))

    assert 0 < sum(problem.hint.startswith("did you mean") for problem in problems) <= 10
