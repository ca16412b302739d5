"""What the check of a manifest accepts, warns of, and keeps."""

import base64
import json
import random
import ssl
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from hypothesis import given, settings, strategies as st
from support.samples.manifests import (
    NOW,
    Document,
    certificate_pem,
    changed,
    full,
    fully_checked,
    places_in,
    rsa_public_pem,
    sample,
)

from keyhouse.base.errors import InvalidError, Problem
from keyhouse.base.secret import Secret
from keyhouse.manifest import Action, FeatureGate, SealMode, decode, fingerprint
from keyhouse.manifest.check import check
from keyhouse.wire.secret_types import SecretType, Uri


def accept(raw: bytes) -> None:
    assert fully_checked(raw).manifest.raw == raw


def problems_of(raw: bytes) -> tuple[Problem, ...]:
    with pytest.raises(InvalidError) as refused:
        fully_checked(raw)
    return refused.value.problems


def warned_places(document: Document) -> list[str]:
    return [w.at for w in check(json.dumps(document).encode(), now=NOW).warnings]


def test_small_sample_is_accepted_without_a_warning() -> None:
    checked = check(sample("small"), now=NOW)
    assert checked.warnings == ()
    assert checked.manifest.packages["hello"].product_id == 1
    assert checked.manifest.marbles["greeter"].parameters.env["GREETING"].data == b"hello"


def test_full_sample_is_accepted_and_means_what_it_says() -> None:
    checked = check(sample("full"), now=NOW)
    manifest = checked.manifest
    assert [warning.at for warning in checked.warnings] == [
        "Infrastructures",
        "Packages.tools.Debug",
    ]
    assert manifest.raw == sample("full")
    assert manifest.packages["backend"].product_id is None
    assert manifest.infrastructures["cloudA"].cpu_svn == bytes(range(16))
    assert manifest.infrastructures["cloudA"].root_ca == b"\3\3\3"
    storage = manifest.marbles["storage"]
    assert storage.max_activations == 3
    assert storage.parameters.files["/run/app/logo.bin"].data == b"\x00\x01\x02\xff"
    assert storage.parameters.files["/run/app/logo.bin"].no_templates
    assert storage.parameters.files["/run/app/greeting"].data == b"hello"
    assert storage.parameters.argv == ("./storage", "--serve")
    assert manifest.marbles["web"].disable_secret_binding
    api = manifest.secrets["apiCert"]
    assert (api.type, api.size, api.shared, api.valid_for) == (SecretType.CERT_ECDSA, 256, True, 90)
    assert api.cert is not None
    assert api.cert.subject.organization == ("Example",)
    assert api.cert.dns_names == ("api.example.com", "localhost")
    assert api.cert.ext_key_usage == (1,)
    assert manifest.secrets["diskKey"].cert is None
    assert manifest.secrets["rsaCert"].cert is not None
    assert manifest.secrets["rsaCert"].cert.dns_names is None
    assert manifest.users["alice"].roles == ("manifestAdmin", "frontendRelease")
    assert manifest.roles["secretManager"].actions == (Action.READ_SECRET, Action.WRITE_SECRET)
    assert manifest.recovery_keys["rk1"].pem.startswith("-----BEGIN PUBLIC KEY")
    assert manifest.tls["internal"].outgoing[1].addr == "10.0.0.9"
    assert manifest.config.seal_mode is SealMode.PRODUCT_KEY
    assert manifest.config.update_threshold == 2
    assert manifest.config.feature_gates == (
        FeatureGate.MONOTONIC_COUNTER,
        FeatureGate.SIGN_QUOTE_ENDPOINT,
    )


def test_fingerprint_is_over_the_exact_bytes() -> None:
    assert fingerprint(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert fingerprint(sample("small")) != fingerprint(sample("small") + b"\n")


@pytest.mark.parametrize("name", ["small", "full"])
def test_replaying_a_checked_manifest_gives_the_same_value(name: str) -> None:
    assert decode(sample(name)) == check(sample(name), now=NOW).manifest


def test_replay_is_lenient_where_the_check_may_become_stricter() -> None:
    document = full()
    document["Packages"]["backend"]["Novelty"] = 1
    document["Config"]["RecoveryThreshold"] = 1
    assert decode(json.dumps(document).encode()).config.recovery_threshold == 1


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"{", b"\xff", b'{"Marbles": 1}', b'{"Users": {"a": {}}}'],
)
def test_replay_of_what_never_was_a_manifest_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidError):
        decode(raw)


def test_field_names_match_in_any_case_of_ascii_only() -> None:
    accept(sample("small").replace(b"Packages", b"pAcKaGes"))
    kelvin = sample("small").replace(b"Packages", "Pac\u212aages".encode())
    assert "unknown field (did you mean Packages?)" in str(problems_of(kelvin)[-1])


def test_an_unknown_field_is_refused_with_the_nearest_known_one() -> None:
    raw = changed(lambda document: document["Packages"]["backend"].update(SecurityVersoin=1))
    (problem,) = problems_of(raw)
    assert problem.at == "Packages.backend.SecurityVersoin"
    assert problem.hint == "did you mean SecurityVersion?"


def test_repeated_keys_of_maps_are_refused_with_their_path() -> None:
    raw = sample("small").replace(b'"greeterKey": {', b'"greeterKey": {}, "greeterKey": {', 1)
    assert [p.at for p in problems_of(raw)] == ["Secrets.greeterKey"]


def test_names_of_maps_that_differ_in_case_are_different() -> None:
    document = full()
    document["Packages"]["BACKEND"] = document["Packages"]["backend"]
    accept(json.dumps(document).encode())


def test_null_means_not_given_everywhere_but_in_files_and_env() -> None:
    document = json.loads(sample("small"))
    document.update(Users=None, Roles=None, TLS=None, Config=None, RecoveryKeys=None)
    document["Infrastructures"] = None
    document["Packages"]["hello"].update(
        Debug=None, UniqueID=None, AcceptedTCBStatuses=None, AcceptedAdvisories=None
    )
    document["Marbles"]["greeter"].update(MaxActivations=None, TLS=None)
    document["Marbles"]["greeter"]["Parameters"]["Files"] = None
    document["Secrets"]["greeterKey"].update(Cert=None, Private=None, Public=None, ValidFor=None)
    assert check(json.dumps(document).encode(), now=NOW).warnings == ()


def test_a_certificate_object_as_go_writes_it_is_accepted() -> None:
    name = {
        "Country": None,
        "Organization": None,
        "OrganizationalUnit": None,
        "Locality": None,
        "Province": None,
        "StreetAddress": None,
        "PostalCode": None,
        "SerialNumber": "",
        "CommonName": "",
        "Names": None,
        "ExtraNames": None,
    }
    document = full()
    document["Secrets"]["apiCert"]["Cert"] = {
        "Raw": None,
        "RawTBSCertificate": None,
        "RawSubjectPublicKeyInfo": None,
        "RawSubject": None,
        "RawIssuer": None,
        "Signature": None,
        "SignatureAlgorithm": 0,
        "PublicKeyAlgorithm": 0,
        "PublicKey": None,
        "Version": 0,
        "SerialNumber": None,
        "Issuer": name,
        "Subject": name,
        "NotBefore": "0001-01-01T00:00:00Z",
        "NotAfter": "0001-01-01T00:00:00Z",
        "KeyUsage": 0,
        "Extensions": None,
        "ExtraExtensions": None,
        "UnhandledCriticalExtensions": None,
        "ExtKeyUsage": None,
        "UnknownExtKeyUsage": None,
        "BasicConstraintsValid": False,
        "IsCA": False,
        "MaxPathLen": 0,
        "MaxPathLenZero": False,
        "SubjectKeyId": None,
        "AuthorityKeyId": None,
        "OCSPServer": None,
        "IssuingCertificateURL": None,
        "DNSNames": None,
        "EmailAddresses": None,
        "IPAddresses": None,
        "URIs": None,
        "PermittedDNSDomainsCritical": False,
        "PermittedDNSDomains": None,
        "ExcludedDNSDomains": None,
        "PermittedIPRanges": None,
        "ExcludedIPRanges": None,
        "PermittedEmailAddresses": None,
        "ExcludedEmailAddresses": None,
        "PermittedURIDomains": None,
        "ExcludedURIDomains": None,
        "CRLDistributionPoints": None,
        "PolicyIdentifiers": None,
        "Policies": None,
        "InhibitAnyPolicy": 0,
        "InhibitAnyPolicyZero": False,
        "InhibitPolicyMapping": 0,
        "InhibitPolicyMappingZero": False,
        "RequireExplicitPolicy": 0,
        "RequireExplicitPolicyZero": False,
        "PolicyMappings": None,
    }
    assert "Secrets" not in str(warned_places(document))


GO_URL: dict[str, Any] = {
    "Scheme": "spiffe",
    "Opaque": "",
    "User": None,
    "Host": "a",
    "Path": "/b",
    "RawPath": "",
    "OmitHost": False,
    "ForceQuery": False,
    "RawQuery": "",
    "Fragment": "",
    "RawFragment": "",
}


def test_a_uri_as_go_writes_it_is_taken() -> None:
    document = full()
    document["Secrets"]["apiCert"]["Cert"]["URIs"] = [GO_URL]
    template = check(json.dumps(document).encode(), now=NOW).manifest.secrets["apiCert"].cert
    assert template is not None
    assert template.uris == (Uri("spiffe", "a", "/b"),)


@pytest.mark.parametrize(
    ("field", "value"),
    [("Opaque", "uuid:1"), ("User", {"a": "b"}), ("RawPath", "/%62"), ("OmitHost", True),
     ("ForceQuery", True), ("RawQuery", "a=b"), ("Fragment", "a"), ("RawFragment", "a")],
)  # fmt: skip
def test_parts_of_a_uri_that_no_certificate_gets_are_refused(field: str, value: object) -> None:
    document = full()
    document["Secrets"]["apiCert"]["Cert"]["URIs"] = [{**GO_URL, field: value}]
    (problem,) = problems_of(json.dumps(document).encode())
    assert problem.at == f"Secrets.apiCert.Cert.URIs[0].{field}"


WARNINGS: list[tuple[str, Any, str]] = [
    ("Packages backend AcceptedTCBStatuses", ["Revoked"],
     "Packages.backend.AcceptedTCBStatuses[0]"),
    ("Packages frontend ProductID", 65536, "Packages.frontend.ProductID"),
    ("Secrets apiToken Size", 8, "Secrets.apiToken.Size"),
    ("Secrets apiToken ValidFor", 8, "Secrets.apiToken.ValidFor"),
    ("Secrets apiToken Private", "YWJj", "Secrets.apiToken.Private"),
    ("Secrets partnerCert Public", "AAAA", "Secrets.partnerCert.Public"),
    ("Secrets diskKey Cert", {"IsCA": True}, "Secrets.diskKey.Cert"),
    ("Secrets apiCert Cert Version", 3, "Secrets.apiCert.Cert.Version"),
    ("Secrets apiCert Cert PolicyMappings", [{}, {"x": 1}], "Secrets.apiCert.Cert.PolicyMappings"),
    ("Secrets apiCert Cert AuthorityKeyId", "AAAA", "Secrets.apiCert.Cert.AuthorityKeyId"),
    ("Secrets apiCert Cert Subject Names", [{}, {"a": 1}], "Secrets.apiCert.Cert.Subject.Names"),
    ("TLS public Incoming", [{"Port": "1", "Addr": "x"}], "TLS.public.Incoming[0].Addr"),
    ("TLS public Outgoing", [{"Port": "1", "Addr": "::1"}], "TLS.public.Outgoing[0].Addr"),
    ("TLS public Outgoing", [{"Port": "1", "Addr": "a", "Cert": "x"}],
     "TLS.public.Outgoing[0].Cert"),
    ("TLS public Outgoing", [{"Port": "1", "Addr": "a", "DisableClientAuth": True}],
     "TLS.public.Outgoing[0].DisableClientAuth"),
    ("Marbles web Parameters Env", {"MARBLE_PREDEFINED_ROOT_CA": "x"},
     "Marbles.web.Parameters.Env.MARBLE_PREDEFINED_ROOT_CA"),
    ("Marbles web Parameters Env", {"MARBLE_TTLS_CONFIG": "x"},
     "Marbles.web.Parameters.Env.MARBLE_TTLS_CONFIG"),
    ("Marbles web Parameters Argv", ["a", "{{ hex .Secrets.x }}"],
     "Marbles.web.Parameters.Argv[1]"),
    ("Users alice Certificate", certificate_pem("alice") + certificate_pem("bob"),
     "Users.alice.Certificate"),
    ("Users alice Certificate", certificate_pem("alice") + "PRIVATE", "Users.alice.Certificate"),
    ("Users alice Certificate", "CN=alice\n" + certificate_pem("alice"),
     "Users.alice.Certificate"),
    ("RecoveryKeys rk1", rsa_public_pem(2048) + rsa_public_pem(3072), "RecoveryKeys.rk1"),
    ("RecoveryKeys rk1", "of alice\n" + rsa_public_pem(2048), "RecoveryKeys.rk1"),
    ("Config FeatureGates", ["signquoteendpoint"], "Config.FeatureGates[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "place"), WARNINGS, ids=[w[2] for w in WARNINGS])
def test_what_has_no_effect_is_warned_of(path: str, value: object, place: str) -> None:
    document = full()
    outer = document
    *steps, last = path.split()
    for step in steps:
        outer = outer[step]
    outer[last] = value
    assert place in warned_places(document)


def _ca_places(document: Document) -> list[str]:
    warnings = check(json.dumps(document).encode(), now=NOW).warnings
    return [warning.at for warning in warnings if "makes a CA" in warning.problem]


def test_a_generated_secret_that_is_a_ca_is_warned_of() -> None:
    document = full()
    assert _ca_places(document) == []
    document["Secrets"]["apiCert"]["Cert"]["IsCA"] = True
    document["Secrets"]["edCert"]["Cert"] = base64.b64encode(_ca_certificate()).decode()
    assert _ca_places(document) == ["Secrets.apiCert.Cert.IsCA", "Secrets.edCert.Cert"]
    for name in ("apiCert", "edCert"):  # nothing is generated: it is below no root of ours
        document["Secrets"][name]["UserDefined"] = True
    assert _ca_places(document) == []


def _ca_certificate() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a CA")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=9))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
        .public_bytes(Encoding.DER)
    )


def test_an_expired_user_certificate_is_warned_of_and_accepted() -> None:
    document = full()
    document["Users"]["alice"]["Certificate"] = certificate_pem("alice")
    raw = json.dumps(document).encode()
    later = check(raw, now=NOW + timedelta(days=400))
    assert "Users.alice.Certificate" in [warning.at for warning in later.warnings]


def test_a_user_certificate_that_ends_in_the_year_0_has_expired() -> None:
    """Its bytes are a certificate's, though no date of Python's is that early."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "alice")])
    der = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW.replace(year=2120, month=1, day=1, hour=0, minute=0, second=0))
        .sign(key, SHA256())
        .public_bytes(Encoding.DER)
    )
    early = der.replace(b"21200101000000Z", b"00000101000000Z")
    assert early != der
    document = full()
    document["Users"]["alice"]["Certificate"] = ssl.DER_cert_to_PEM_cert(early)
    found = fully_checked(json.dumps(document).encode()).warnings
    assert [each.problem for each in found if each.at == "Users.alice.Certificate"] == [
        "has expired; the certificate still identifies the user"
    ]


def test_a_recovery_key_under_two_names_is_refused() -> None:
    document = full()
    document["RecoveryKeys"]["rk3"] = document["RecoveryKeys"]["rk2"]
    (problem,) = problems_of(json.dumps(document).encode())
    assert (problem.at, problem.problem) == ("RecoveryKeys.rk3", 'is the same key as "rk2"')


def test_a_recovery_key_is_the_same_with_another_exponent() -> None:
    document = full()
    key = load_pem_public_key(document["RecoveryKeys"]["rk2"].encode())
    assert isinstance(key, RSAPublicKey)
    other = RSAPublicNumbers(3, key.public_numbers().n).public_key()
    document["RecoveryKeys"]["rk3"] = other.public_bytes(
        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    ).decode()
    assert [p.at for p in problems_of(json.dumps(document).encode())] == ["RecoveryKeys.rk3"]


def test_text_around_a_certificate_has_no_effect() -> None:
    document = full()
    document["Users"]["alice"]["Certificate"] = certificate_pem("alice")
    assert "Users.alice.Certificate" not in warned_places(document)  # a line feed at the end is
    alone = check(json.dumps(document).encode(), now=NOW).manifest.users["alice"]
    more = "subject=alice\n" + certificate_pem("alice") + certificate_pem("bob")
    document["Users"]["alice"]["Certificate"] = more
    assert check(json.dumps(document).encode(), now=NOW).manifest.users["alice"] == alone


def test_words_in_other_letters_are_warned_of_with_what_they_are_read_as() -> None:
    document = full()
    document["Config"]["FeatureGates"] = ["MONOTONICCOUNTER", "SignQuoteEndpoint"]
    roles = document["Roles"]
    (updater,) = (name for name, role in roles.items() if role["ResourceType"] == "Manifest")
    roles[updater]["Actions"] = ["updatemanifest"]
    warnings = check(json.dumps(document).encode(), now=NOW).warnings
    read = {w.at: w.problem for w in warnings if w.problem.startswith("is read as")}
    assert read == {
        "Config.FeatureGates[0]": "is read as MonotonicCounter",
        f"Roles.{updater}.Actions[0]": "is read as UpdateManifest",
    }


def test_thresholds_of_all_and_of_two_are_accepted() -> None:
    for threshold in (0, 2, 3):
        document = full()
        document["Config"]["RecoveryThreshold"] = threshold
        accept(json.dumps(document).encode())


def test_one_rsa_key_of_the_largest_size_is_the_whole_budget() -> None:
    document = json.loads(sample("small"))
    document["Secrets"]["big"] = {"Type": "cert-rsa", "Size": 8192}
    accept(json.dumps(document).encode())
    document["Secrets"]["more"] = {"Type": "cert-ed25519"}
    (problem,) = problems_of(json.dumps(document).encode())
    assert problem.at == "Secrets"
    assert "64 RSA-2048 keys" in problem.problem


def test_sixty_four_rsa_keys_fit_and_one_more_does_not() -> None:
    document = json.loads(sample("small"))
    for index in range(64):
        document["Secrets"][f"k{index}"] = {"Type": "cert-rsa", "Size": 2048}
    accept(json.dumps(document).encode())
    document["Secrets"]["one more"] = {"Type": "cert-rsa", "Size": 2048}
    assert [p.at for p in problems_of(json.dumps(document).encode())] == ["Secrets"]


def test_uploaded_secrets_cost_nothing() -> None:
    document = json.loads(sample("small"))
    for index in range(100):
        document["Secrets"][f"k{index}"] = {"Type": "cert-rsa", "Size": 8192, "UserDefined": True}
    accept(json.dumps(document).encode())


def test_a_certificate_serves_as_template_until_it_ends() -> None:
    pem = certificate_pem("template")
    der = "".join(pem.splitlines()[1:-1])
    document = full()
    document["Secrets"]["edCert"]["Cert"] = der
    checked = check(json.dumps(document).encode(), now=NOW)
    assert checked.manifest.secrets["edCert"].cert_der == base64.b64decode(der)
    document["Secrets"]["edCert"]["ValidFor"] = 3
    assert [p.at for p in problems_of(json.dumps(document).encode())] == ["Secrets.edCert.ValidFor"]
    with pytest.raises(InvalidError):
        fully_checked(json.dumps(document).encode(), now=NOW + timedelta(days=400))


def test_an_exponent_of_one_is_no_encryption_and_refused() -> None:
    # The exponent is the last integer of the key: 02 03 01 00 01 becomes 1, padded to its length.
    lines = rsa_public_pem(2048).splitlines()
    der = base64.b64decode("".join(lines[1:-1]))
    assert der.endswith(b"\x02\x03\x01\x00\x01")
    for value in (b"\x02\x03\x01\x00\x02", b"\x02\x03\x00\x00\x01"):
        body = base64.b64encode(der[:-5] + value).decode()
        document = full()
        document["RecoveryKeys"]["rk1"] = "\n".join([lines[0], body, lines[-1]])
        assert [p.at for p in problems_of(json.dumps(document).encode())] == ["RecoveryKeys.rk1"]


def test_initial_values_are_kept_as_secrets_and_never_shown() -> None:
    canary = b"canary-canary-16"
    text = base64.b64encode(canary).decode()
    document = full()
    document["Secrets"]["partnerKey"]["Private"] = text
    checked = check(json.dumps(document).encode(), now=NOW)
    assert checked.manifest.secrets["partnerKey"].private == Secret(canary)
    document["Secrets"]["partnerKey"]["Size"] = 256
    document["Secrets"]["partnerKey"]["Public"] = text[:-2]
    document["Secrets"]["clusterKey"]["Private"] = text
    document["Secrets"]["diskKey"]["Private"] = [*canary, 256]
    shown = str(problems_of(json.dumps(document).encode())) + str(checked.warnings)
    for form in (canary.decode(), text, text[:-2], canary.hex(), str(list(canary))[1:-1]):
        assert form not in shown


def test_a_manifest_over_its_limit_is_not_read() -> None:
    (problem,) = problems_of(b" " * (16 * 1024 * 1024 + 1))
    assert problem.problem == "has 16777217 bytes, must have at most 16777216"


def test_types_are_told_before_rules() -> None:
    document = full()
    document["Packages"]["backend"]["ProductID"] = "1"
    document["Packages"]["extra"] = 3
    document["Marbles"]["web"]["Package"] = "nobody"
    document["Config"]["Typo"] = 1
    assert [p.at for p in problems_of(json.dumps(document).encode())] == [
        "Config.Typo",
        "Packages.backend.ProductID",
        "Packages.extra",
    ]


def test_all_problems_are_told_at_once_sorted_by_place() -> None:
    document = full()
    document["Marbles"]["web"]["Package"] = "nobody"
    document["Config"]["SealMode"] = "x"
    document["Users"]["alice"]["Roles"].append("y")
    document["Typo"] = 1
    assert [p.at for p in problems_of(json.dumps(document).encode())] == [
        "Config.SealMode",
        "Marbles.web.Package",
        "Typo",
        "Users.alice.Roles[2]",
    ]


def test_curves_of_all_sizes_fit_and_sixteen_thousand_do() -> None:
    document = json.loads(sample("small"))
    for size in (224, 256, 384, 521):
        document["Secrets"][f"c{size}"] = {"Type": "cert-ecdsa", "Size": size}
    document["Secrets"]["any"] = {"Type": "cert-ecdsa", "UserDefined": True}
    accept(json.dumps(document).encode())
    document["Secrets"]["bad"] = secret = {"Type": "cert-ecdsa", "Size": 256}
    secret["Cert"] = {"Subject": {"Country": ["D1"]}}
    place = "Secrets.bad.Cert.Subject.Country[0]"
    assert [p.at for p in problems_of(json.dumps(document).encode())] == [place]
    for number in range(16_385):
        document["Secrets"][f"k{number}"] = {"Type": "cert-ecdsa", "Size": 256}
    # So many are not even issued on trial, which finds what is wrong with a template.
    assert [p.at for p in problems_of(json.dumps(document).encode())] == ["Secrets"]


def test_a_certificate_alone_is_no_value_of_a_secret_that_users_upload() -> None:
    document = full()
    pem = document["Users"]["alice"]["Certificate"]
    secret = {"Type": "cert-ecdsa", "UserDefined": True, "Cert": "".join(pem.splitlines()[1:-1])}
    document["Secrets"]["uploaded"] = secret
    assert "Secrets.uploaded.Cert" in warned_places(document)


def test_a_template_with_everything_that_is_honoured_is_accepted() -> None:
    document = full()
    document["Secrets"]["apiCert"].pop("ValidFor")
    document["Secrets"]["apiCert"]["Cert"] |= {
        "NotAfter": "2035-01-01T00:00:00.5+02:00",
        "EmailAddresses": ["a@example.com"],
        "URIs": [{"Scheme": "spiffe", "Host": "a", "Path": "/b"}],
        "IPAddresses": ["::1", "10.0.0.1"],
        "IsCA": True,
        "MaxPathLen": 1,
        "KeyUsage": 16 | 128,
        "UnknownExtKeyUsage": [[1, 2, 3]],
        "SubjectKeyId": "AAAA",
        "PermittedIPRanges": [{"IP": "10.0.0.0", "Mask": "/wAAAA=="}],
        "ExcludedIPRanges": [{"IP": "2001:db8::", "Mask": "/////wAAAAAAAAAAAAAAAA=="}],
        "Policies": ["2.23.140.1.2.1"],
        "ExtraExtensions": [{"Id": [1, 2, 3], "Critical": True, "Value": "BQA="}],
        "SignatureAlgorithm": 11,
    }
    accept(json.dumps(document).encode())


def test_the_number_of_problems_that_are_told_is_bounded() -> None:
    document = full()
    document["Packages"]["backend"]["AcceptedTCBStatuses"] = [f"x{n}" for n in range(100_000)]
    problems = problems_of(json.dumps(document).encode())
    assert len(problems) == 1_001
    assert problems[0].problem == "has more than 1000 problems; only the first 1000 are listed"


def test_as_many_problems_as_can_be_told_are_all_told() -> None:
    document = full()
    document["Packages"]["backend"]["AcceptedTCBStatuses"] = [f"x{n}" for n in range(1_000)]
    found = problems_of(json.dumps(document).encode())
    assert len(found) == 1_000
    assert not [each for each in found if "more than 1000" in each.problem]


def test_problems_of_rules_and_templates_are_bounded_together() -> None:
    document = full()
    document["Packages"]["backend"]["AcceptedTCBStatuses"] = [f"x{n}" for n in range(2_000)]
    bad = {"Type": "cert-ecdsa", "Size": 256, "Cert": {"DNSNames": ["a b"] * 3_000}}
    document["Secrets"]["new"] = bad
    found = problems_of(json.dumps(document).encode())
    assert len(found) == 1_001
    assert len([each for each in found if "more than 1000 problems" in each.problem]) == 1


def test_problems_of_all_parts_come_at_once() -> None:
    document = full()
    bad = {"Type": "cert-ecdsa", "Size": 256, "Cert": {"KeyUsage": 512, "DNSNames": ["a b", "c"]}}
    document["Secrets"] |= {"each": bad, "shared": bad | {"Shared": True}}
    templates = [
        f"Secrets.{name}.Cert.{field}"
        for name in ("each", "shared")
        for field in ("DNSNames[0]", "KeyUsage")
    ]
    assert [p.at for p in problems_of(json.dumps(document).encode())] == templates
    document["Config"]["RecoveryThreshold"] = 1
    document["Secrets"]["key"] = {"Type": "symmetric-key", "Size": 7}
    found = [p.at for p in problems_of(json.dumps(document).encode())]
    assert found == sorted(["Config.RecoveryThreshold", "Secrets.key.Size", *templates])


def test_the_number_of_problems_of_templates_is_bounded() -> None:
    document = full()
    names = ["a b"] * 3_000
    document["Secrets"]["new"] = {"Type": "cert-ecdsa", "Size": 256, "Cert": {"DNSNames": names}}
    found = problems_of(json.dumps(document).encode())
    assert len(found) == 1_001
    assert "more than 1000 problems" in found[0].problem


def test_the_number_of_warnings_is_bounded() -> None:
    document = full()
    document["TLS"]["public"]["Outgoing"] = [
        {"Port": "1", "Addr": "a", "Cert": "x"} for _ in range(2_000)
    ]
    assert len(warned_places(document)) == 1_000


def test_many_marbles_with_many_ports_are_refused_instead_of_compared() -> None:
    document = full()
    for tag in ("internal", "public"):
        ports = range(1, 2_001) if tag == "internal" else range(3_000, 5_000)
        document["TLS"][tag] = {"Incoming": [{"Port": str(port)} for port in ports]}
    for number in range(1_000):
        document["Marbles"][f"m{number}"] = document["Marbles"]["web"]
    (problem,) = problems_of(json.dumps(document).encode())
    assert problem.problem == "have more than 1000000 incoming ports in all tags together"


def test_more_template_actions_than_are_parsed_are_refused_by_name() -> None:
    document = full()
    files = document["Marbles"]["storage"]["Parameters"]["Files"]
    action = "{{ hex .Secrets.diskKey }}"
    files["/fits"] = action * 49_000
    files["/too/much"] = action * 1_000 + "."
    (problem,) = problems_of(json.dumps(document).encode())
    assert problem.at == 'Marbles.storage.Parameters.Files["/too/much"]'
    assert problem.problem == "exceeds the maximum of 50000 template actions in a manifest"


# Properties

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


def outcome(raw: bytes) -> object:
    try:
        return check(raw, now=NOW)
    except InvalidError as invalid:
        return invalid.problems


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_arbitrary_bytes_raise_only_invalid(raw: bytes) -> None:
    assert isinstance(outcome(raw), tuple)
    with suppress(InvalidError):  # b"{}" is decoded
        decode(raw)


@given(st.dictionaries(st.sampled_from(sorted(full())), JSON) | JSON)
@settings(max_examples=300)
def test_arbitrary_json_raises_only_invalid(value: object) -> None:
    assert isinstance(outcome(json.dumps(value).encode()), tuple)


@given(st.integers(0, 10_000), JSON)
@settings(max_examples=300)
def test_a_sample_with_anything_anywhere_never_crashes(number: int, value: object) -> None:
    document = full()
    places = places_in(document)
    container, key = places[number % len(places)]
    container[key] = value
    raw = json.dumps(document).encode()
    first = outcome(raw)
    assert outcome(raw) == first
    if not isinstance(first, tuple):
        assert decode(raw) == check(raw, now=NOW).manifest


@given(st.integers(0, 10_000), st.integers(0, 255))
@settings(max_examples=200)
def test_a_sample_with_a_changed_byte_never_crashes(place: int, byte: int) -> None:
    raw = bytearray(sample("full"))
    raw[place % len(raw)] = byte
    outcome(bytes(raw))


def shuffled(value: object, order: random.Random) -> object:
    if isinstance(value, dict):
        names = list(value)
        order.shuffle(names)
        return {name: shuffled(value[name], order) for name in names}
    return value


@given(st.integers(0, 10_000), st.integers(0, 10_000), JSON)
@settings(max_examples=100)
def test_the_order_of_keys_changes_no_finding(seed: int, number: int, value: object) -> None:
    document = full()
    document["Users"]["bob"]["Certificate"] = document["Users"]["alice"]["Certificate"]
    document["Marbles"]["web"]["Package"] = "nobody"
    places = places_in(document)
    container, key = places[number % len(places)]
    container[key] = value
    order = random.Random(seed)  # noqa: S311  an order to test with
    first = outcome(json.dumps(document).encode())
    assert outcome(json.dumps(shuffled(document, order)).encode()) == first
