"""The schema of the manifest: takes what is right, and refuses nothing that the check takes."""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from support.cosigner import Cosigner
from support.process.start import DIVIDED
from support.reference import DOCUMENTS, REFERENCE
from support.samples.confidential_vms import TDX
from support.samples.manifests import (
    Document,
    certificate_pem,
    full,
    fully_checked,
    rsa_public_pem,
    sample,
)

from keyhouse.base.errors import InvalidError
from keyhouse.manifest.source.schema import manifest_schema
from keyhouse.manifest.source.schema_fields import DESCRIBED


@cache
def _validator() -> jsonschema_rs.Draft202012Validator:
    schema = manifest_schema()
    jsonschema_rs.meta.validate(schema)
    return jsonschema_rs.Draft202012Validator(schema)


def _taken(document: Document) -> bool:
    """Tell whether the coordinator's check takes ``document``."""
    try:
        fully_checked(json.dumps(document).encode())
    except InvalidError:
        return False
    return True


def _rich() -> Document:
    """Return the full sample with every field that a manifest can have, and valid."""
    document = full()
    document["Secrets"]["apiCert"] |= {"ValidFor": None}
    document["Secrets"]["apiCert"]["Cert"] |= {
        "NotAfter": "2035-01-01T00:00:00.5+01:00",
        "Subject": {
            "Country": ["DE"],
            "Organization": ["Example"],
            "OrganizationalUnit": ["Unit"],
            "Locality": ["Here"],
            "Province": ["There"],
            "StreetAddress": ["Street 1"],
            "PostalCode": ["12345"],
            "CommonName": "api.example.com",
            "SerialNumber": "7",
            "ExtraNames": [{"Type": [2, 5, 4, 12], "Value": "title"}],
            "Names": None,
        },
        "EmailAddresses": ["a@example.com"],
        "URIs": [{"Scheme": "spiffe", "Host": "a", "Path": "/b"}],
        "UnknownExtKeyUsage": [[1, 3, 6, 1, 4, 1, 311, 20, 2, 2]],
        "IsCA": True,
        "MaxPathLen": 1,
        "MaxPathLenZero": False,
        "SubjectKeyId": [1, 2, 3],
        "OCSPServer": ["http://ocsp.example.com"],
        "IssuingCertificateURL": ["http://ca.example.com"],
        "CRLDistributionPoints": ["http://crl.example.com"],
        "PermittedDNSDomainsCritical": True,
        "PermittedDNSDomains": ["example.com"],
        "ExcludedDNSDomains": ["bad.example.com"],
        "PermittedEmailAddresses": ["example.com"],
        "ExcludedEmailAddresses": ["bad@example.com"],
        "PermittedURIDomains": [".example.com"],
        "ExcludedURIDomains": [".bad.example.com"],
        "PermittedIPRanges": [{"IP": "10.0.0.0", "Mask": "/wAAAA=="}],
        "ExcludedIPRanges": [{"IP": "10.1.0.0", "Mask": "//8AAA=="}],
        "Policies": ["1.2.3.4"],
        "PolicyIdentifiers": [[1, 2, 3, 5]],
        "ExtraExtensions": [{"Id": [1, 2, 3], "Critical": False, "Value": "BQA="}],
        "SignatureAlgorithm": 10,
        "AuthorityKeyId": "",
        "Version": 3,
    }
    document["Secrets"]["partnerKey"] |= {"Private": "AAECAwQFBgcICQoLDA0ODw==", "Public": None}
    document["Packages"]["vm"] = {"TDX": {**TDX}, "UniqueID": None, "Debug": False}
    document["Config"]["Replicas"] = {
        "Code": [{"UniqueID": "ab" * 32}, {"TDX": {**TDX}}],
        "AcceptedTCBStatuses": ["SWHardeningNeeded"],
        "Platforms": ["0f" * 16, "AB" * 64],
    }
    document["Config"]["Transparency"] = {
        "Witnesses": f"witness W {Cosigner.ed25519().verifier} https://w.example\nquorum W\n",
        "Serve": "Witnessed",
        "LeaseSeconds": 60,
        "LeaseOperations": 1,
        "AnchorBefore": ["Counters", "LimitedActivations"],
        "SignedApprovals": True,
    }
    document["TLS"]["internal"]["Incoming"][0] |= {"Addr": "", "Cert": None}
    document["TLS"]["internal"]["Outgoing"][0] |= {"Cert": "", "DisableClientAuth": False}
    return document


# --- what it is ---


@pytest.mark.parametrize("name", ["small", "full"])
def test_sample_is_taken(name: str) -> None:
    _validator().validate(json.loads(sample(name)))


def test_manifest_with_every_field_is_taken_by_schema_and_check() -> None:
    document = _rich()

    assert [error.message for error in _validator().iter_errors(document)] == []
    assert _taken(document)


@pytest.mark.skipif(bool(DIVIDED), reason="the schema states the true length of a lease")
def test_schema_in_the_repository_is_the_one_that_the_model_makes() -> None:
    name = "manifest.schema.json"

    assert (REFERENCE / name).read_text(encoding="utf-8") == DOCUMENTS[name](), (
        "renew it: PYTHONPATH=tests .venv/bin/python -m support.reference"
    )


def test_schema_is_the_same_each_time_and_shares_nothing_between_calls() -> None:
    first = manifest_schema()
    first["$defs"].clear()

    assert manifest_schema() == manifest_schema()
    assert manifest_schema()["$defs"]


@pytest.mark.parametrize("kind", DESCRIBED, ids=lambda kind: str(kind.__name__))
def test_every_field_of_the_model_is_described_and_no_other(kind: type[msgspec.Struct]) -> None:
    assert sorted(DESCRIBED[kind].fields) == sorted(kind.__struct_encode_fields__)


def _objects() -> Iterator[tuple[str, dict[str, Any]]]:
    schema = manifest_schema()
    yield "Manifest", schema
    yield from schema["$defs"].items()


def test_every_object_of_the_model_is_in_the_schema_with_all_its_fields() -> None:
    by_title = {kind.__name__.removesuffix("Document"): kind for kind in DESCRIBED}

    found = {title: sorted(schema["properties"]) for title, schema in _objects()}

    assert found == {
        title: sorted(kind.__struct_encode_fields__) for title, kind in by_title.items()
    }


@pytest.mark.parametrize(("title", "schema"), list(_objects()))
def test_every_object_is_closed_and_every_field_is_explained(
    title: str, schema: dict[str, Any]
) -> None:
    assert schema["title"] == title
    assert schema["additionalProperties"] is False
    assert schema["description"].endswith(".")
    assert all(field["description"].endswith(".") for field in schema["properties"].values())


# --- what it refuses ---


REFUSED: dict[str, dict[str, Any]] = {
    "a misspelt section": {"Package": {}},
    "a misspelt restriction": {"Packages": {"a": {"UniqueID": "00" * 32, "AcceptedTCBStatus": []}}},
    "no packages": {"Packages": {}},
    "packages that are null": {"Packages": None},
    "a package of two identities": {
        "Packages": {"a": {"UniqueID": "00" * 32, "SignerID": "11" * 32}}
    },
    "a package with half an identity": {"Packages": {"a": {"SignerID": "00" * 32}}},
    "a package of 63 digits": {"Packages": {"a": {"UniqueID": "0" * 63}}},
    "a confidential VM without MRTD": {"Packages": {"a": {"TDX": {"RTMR1": "00" * 48}}}},
    "a confidential VM of 95 digits": {"Packages": {"a": {"TDX": {"MRTD": "0" * 95}}}},
    "a register of 95 digits": {"Packages": {"a": {"TDX": {**TDX, "RTMR3": "0" * 95}}}},
    "an XFAM of 48 bytes": {"Packages": {"a": {"TDX": {**TDX, "XFAM": "00" * 48}}}},
    "a misspelt register": {"Packages": {"a": {"TDX": {**TDX, "RTMR4": "00" * 48}}}},
    "an enclave and a confidential VM": {"Packages": {"a": {"TDX": TDX, "UniqueID": "00" * 32}}},
    "a debug package of a confidential VM": {"Packages": {"a": {"TDX": TDX, "Debug": True}}},
    "a version of a confidential VM": {"Packages": {"a": {"TDX": TDX, "SecurityVersion": 0}}},
    "an unknown TCB status": {
        "Packages": {"a": {"UniqueID": "00" * 32, "AcceptedTCBStatuses": ["Good"]}}
    },
    "a marble without a package": {"Marbles": {"m": {}}},
    "a marble of no name": {"Marbles": {"": {"Package": "p"}}},
    "a variable with = in its name": {
        "Marbles": {"m": {"Package": "p", "Parameters": {"Env": {"a=b": ""}}}}
    },
    "a file that is null": {
        "Marbles": {"m": {"Package": "p", "Parameters": {"Files": {"/a": None}}}}
    },
    "an unknown encoding": {
        "Marbles": {"m": {"Package": "p", "Parameters": {"Env": {"a": {"Encoding": "rot13"}}}}}
    },
    "a secret without a type": {"Secrets": {"s": {"Size": 128}}},
    "a key without a size": {"Secrets": {"s": {"Type": "symmetric-key"}}},
    "a key of 12 bits": {"Secrets": {"s": {"Type": "symmetric-key", "Size": 12}}},
    "a key per marble that is too long": {
        "Secrets": {"s": {"Type": "symmetric-key", "Size": 65288}}
    },
    "plain data that is generated": {"Secrets": {"s": {"Type": "plain"}}},
    "a small RSA key": {"Secrets": {"s": {"Type": "cert-rsa", "Size": 512}}},
    "an unknown curve": {"Secrets": {"s": {"Type": "cert-ecdsa", "Size": 255}}},
    "an Ed25519 key with a size": {"Secrets": {"s": {"Type": "cert-ed25519", "Size": 256}}},
    "a generated key with a value": {
        "Secrets": {"s": {"Type": "symmetric-key", "Size": 128, "Private": "AA=="}}
    },
    "a user without a certificate": {"Users": {"u": {}}},
    "a role of an unknown kind": {"Roles": {"r": {"ResourceType": "Everything"}}},
    "a role with an action of another kind": {
        "Roles": {"r": {"ResourceType": "Secrets", "Actions": ["UpdateManifest"]}}
    },
    "a role on manifests by name": {
        "Roles": {"r": {"ResourceType": "Manifest", "ResourceNames": ["m"]}}
    },
    "a recovery key that is no PEM": {"RecoveryKeys": {"k": "key"}},
    "a port that is a number": {"TLS": {"t": {"Incoming": [{"Port": 80}]}}},
    "port 65536": {"TLS": {"t": {"Incoming": [{"Port": "65536"}]}}},
    "a port without clients' certificates and of its own": {
        "TLS": {"t": {"Incoming": [{"Port": "80", "DisableClientAuth": True}]}}
    },
    "a peer without an address": {"TLS": {"t": {"Outgoing": [{"Port": "80"}]}}},
    "an unknown seal mode": {"Config": {"SealMode": "productkey"}},
    "an unknown gate": {"Config": {"FeatureGates": ["Everything"]}},
    "a gate that is not built": {"Config": {"FeatureGates": ["AzureHSMSealing"]}},
    "a recovery threshold of 1": {"Config": {"RecoveryThreshold": 1}},
    "a threshold below 0": {"Config": {"UpdateThreshold": -1}},
    "a threshold over 64 bits": {"Config": {"UpdateThreshold": 2**64}},
}


@pytest.mark.parametrize("what", REFUSED)
def test_schema_and_check_both_refuse(what: str) -> None:
    document = json.loads(sample("small")) | REFUSED[what]

    assert not _validator().is_valid(document)
    assert not _taken(document)


TAKEN: dict[str, dict[str, Any]] = {
    "null for every section that may be left out": dict.fromkeys(
        ("Infrastructures", "Users", "Roles", "RecoveryKeys", "TLS", "Config")
    ),
    "a debug package without an identity": {
        "Packages": {"hello": {"Debug": True, "UniqueID": "to be done"}}
    },
    "a key of a user with a value": {
        "Secrets": {
            "greeterKey": {
                "Type": "symmetric-key",
                "Size": 8,
                "UserDefined": True,
                "Private": [7],
            }
        }
    },
    "a user's certificate of any size": {
        "Secrets": {
            "greeterKey": {"Type": "symmetric-key", "Size": 128},
            "c": {"Type": "cert-rsa", "UserDefined": True, "Size": 0},
        }
    },
    "users, keys and options": {
        "Users": {"u": {"Certificate": certificate_pem("schema"), "Roles": ["r"]}},
        "Roles": {"r": {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]}},
        "RecoveryKeys": {"k": rsa_public_pem(2048)},
        "Config": {"SealMode": "", "UpdateThreshold": 1, "FeatureGates": None},
    },
    "empty infrastructures": {"Infrastructures": {"i": None}},
}


@pytest.mark.parametrize("what", TAKEN)
def test_schema_and_check_both_take(what: str) -> None:
    document = json.loads(sample("small")) | TAKEN[what]

    assert [error.message for error in _validator().iter_errors(document)] == []
    assert _taken(document)


WANTED: dict[str, dict[str, Any]] = {
    "names of fields in another case": {"config": {}},
    "words in another case": {"Config": {"FeatureGates": ["signquoteendpoint"]}},
    "a template that has no effect": {
        "Secrets": {"greeterKey": {"Type": "symmetric-key", "Size": 128, "Cert": {"KeyUsage": 512}}}
    },
}


@pytest.mark.parametrize("what", WANTED)
def test_wanted_difference_is_refused_by_the_schema_alone(what: str) -> None:
    document = json.loads(sample("small")) | WANTED[what]

    assert not _validator().is_valid(document)
    assert _taken(document)


# --- what it refuses is wrong: changes of one part, and of several ---

Steps = tuple[str | int, ...]


def _paths(value: Any, path: Steps = ()) -> Iterator[Steps]:
    if path:
        yield path
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _paths(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, (*path, index))


_PATHS = list(_paths(_rich()))
_REMOVED = object()
_VALUES = [
    _REMOVED, None, True, False, 0, 1, -1, 7, 256, 512, 2**16, 2**63, 2**64, 1.5, "", "x", "8443",
    "AA==", "AA", "\n", "2030-01-01T00:00:00Z", "a b", "\0", "00" * 32, [], [None], [0], [1, 2],
    ["x"], [""], [[2, 5]], {}, {"x": 1}, {"": ""},
    "plain", "cert-rsa", "symmetric-key", "Secrets", "Manifest", "UpdateManifest",
]  # fmt: skip


def _changed(document: Document, path: Steps, value: Any) -> None:
    """Put ``value`` at ``path``, or remove what is there; nothing if another change took it."""
    holder: Any = document
    for step in path[:-1]:
        if not _holds(holder, step):
            return
        holder = holder[step]
    last = path[-1]
    if value is _REMOVED:
        if _holds(holder, last):
            del holder[last]
    elif _holds(holder, last) or (isinstance(holder, dict) and isinstance(last, str)):
        holder[last] = copy.deepcopy(value)


def _holds(holder: Any, step: str | int) -> bool:
    if isinstance(holder, list):
        return isinstance(step, int) and step < len(holder)
    return isinstance(holder, dict) and step in holder


def _has_idle_template(document: Document) -> bool:
    """Tell whether a secret has a template that has no effect: one of the wanted differences."""
    secrets = document.get("Secrets")
    return isinstance(secrets, dict) and any(
        isinstance(secret, dict)
        and isinstance(secret.get("Cert"), dict)
        and (secret.get("UserDefined") is True or secret.get("Type") in ("symmetric-key", "plain"))
        for secret in secrets.values()
    )


_CHANGE = st.tuples(st.sampled_from(_PATHS), st.sampled_from(_VALUES))


@settings(max_examples=400, deadline=None)
@given(st.lists(_CHANGE, min_size=1, max_size=4))
def test_what_the_schema_refuses_is_refused_by_the_check(changes: list[tuple[Steps, Any]]) -> None:
    document = _rich()
    for path, value in changes:
        _changed(document, path, value)
    if _has_idle_template(document) or _validator().is_valid(document):
        return

    assert not _taken(document)


_KNOWN = {field.lower() for kind in DESCRIBED for field in kind.__struct_encode_fields__}


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([path for path in _PATHS if isinstance(path[-1], str)]), st.text(max_size=8))
def test_a_field_that_the_schema_alone_does_not_know_is_known_in_another_case(
    path: Steps, name: str
) -> None:
    document = _rich()
    _changed(document, (*path[:-1], name), None)
    if not _validator().is_valid(document) and _taken(document):
        assert name.lower() in _KNOWN


def test_command_line_prints_the_schema_of_the_repository() -> None:
    printed = subprocess.run(
        [Path(sys.executable).with_name("keyhouse"), "manifest", "schema"],
        check=True,
        capture_output=True,
    )

    assert printed.stdout == (REFERENCE / "manifest.schema.json").read_bytes()
