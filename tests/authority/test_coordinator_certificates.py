"""The coordinator's own certificates match the description of the interface."""

import hashlib
import ipaddress
import re
import ssl
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from support.samples.authority import NOW, coordinator_keys, openssl_text, openssl_verify

from keyhouse.authority import (
    CoordinatorKeys,
    Curve,
    make_coordinator_keys,
    parse_names,
    renew_intermediate,
)
from keyhouse.base.errors import BrokenError, InvalidError
from keyhouse.base.pem import certificate_pem

CURVES: tuple[Curve, ...] = ("P-256", "P-384")
LOOPBACK = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]


def _certificates(keys: CoordinatorKeys) -> dict[str, x509.Certificate]:
    return {
        "root": x509.load_der_x509_certificate(keys.root_cert),
        "intermediate": x509.load_der_x509_certificate(keys.intermediate_cert),
        "marble root": x509.load_der_x509_certificate(keys.marble_root_cert),
    }


def _bits(certificate: x509.Certificate) -> bytes:
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _names(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("which", ["root", "intermediate", "marble root"])
def test_every_coordinator_certificate_has_the_common_properties(curve: Curve, which: str) -> None:
    certificate = _certificates(coordinator_keys(curve))[which]
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == {"P-256": "secp256r1", "P-384": "secp384r1"}[curve]
    hash_ = certificate.signature_hash_algorithm
    assert hash_ is not None
    assert hash_.name == {"P-256": "sha256", "P-384": "sha384"}[curve]
    assert certificate.version is x509.Version.v3
    assert 1 <= certificate.serial_number < 2**128
    assert certificate.not_valid_before_utc == NOW.replace(microsecond=0)
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert lifetime == timedelta(seconds=(2**63 - 1) // 10**9)
    found = {e.oid: e for e in certificate.extensions}
    assert len(found) == (6 if which == "intermediate" else 5)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=None)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    on = [name for name in dir(usage.value) if getattr(usage.value, "_" + name, False) is True]
    assert sorted(on) == ["digital_signature", "key_cert_sign"]
    extended = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(extended.value) == [
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    ]
    identifier = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    assert not identifier.critical
    assert identifier.value.digest == hashlib.sha256(_bits(certificate)).digest()[:20]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert not names.critical
    assert names.value.get_values_for_type(x509.DNSName) == [
        "coordinator.example.com",
        "localhost",
    ]
    addresses = [*LOOPBACK, ipaddress.ip_address("10.1.2.3")]
    assert names.value.get_values_for_type(x509.IPAddress) == addresses


@pytest.mark.parametrize("curve", CURVES)
def test_marble_root_is_the_twin_of_the_intermediate(curve: Curve) -> None:
    found = _certificates(coordinator_keys(curve))
    root, intermediate, twin = found["root"], found["intermediate"], found["marble root"]
    assert (
        root.subject.rfc4514_string() == root.issuer.rfc4514_string() == "CN=Keyhouse Coordinator"
    )
    assert intermediate.subject.rfc4514_string() == "CN=Keyhouse Coordinator - Intermediate CA"
    assert twin.subject == twin.issuer == intermediate.subject
    assert _bits(twin) == _bits(intermediate) != _bits(root)
    assert len({c.serial_number for c in found.values()}) == 3
    intermediate.verify_directly_issued_by(root)
    twin.verify_directly_issued_by(twin)
    authority = intermediate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert authority.key_identifier == hashlib.sha256(_bits(root)).digest()[:20]
    for certificate in (root, twin):
        with pytest.raises(x509.ExtensionNotFound):
            certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)


@pytest.mark.parametrize("curve", CURVES)
def test_private_keys_belong_to_their_certificates(curve: Curve) -> None:
    keys = coordinator_keys(curve)
    found = _certificates(keys)
    for secret, which in ((keys.root_key, "root"), (keys.intermediate_key, "intermediate")):
        private = load_der_private_key(secret.reveal(), None)
        assert private.public_key() == found[which].public_key()
    assert len(keys.root_secret) == 32


def test_openssl_reads_and_verifies_the_chain(tmp_path: Path) -> None:
    keys = coordinator_keys()
    text = openssl_text(keys.root_cert, tmp_path)
    assert re.search(r"Subject: CN ?= ?Keyhouse Coordinator\n", text)  # no spaces since OpenSSL 3.2
    assert "Digital Signature, Certificate Sign" in text
    assert "DNS:coordinator.example.com, DNS:localhost, IP Address:127.0.0.1" in text
    assert openssl_verify(keys.intermediate_cert, root=keys.root_cert, folder=tmp_path)


def test_two_coordinators_share_nothing() -> None:
    first, second = (
        make_coordinator_keys(
            dns_names=(), ip_addresses=(), curve="P-256", now=NOW, simulated=False
        )
        for _ in range(2)
    )
    assert first.root_secret != second.root_secret
    assert first.root_key != second.root_key
    assert first.intermediate_key != second.intermediate_key
    assert first.intermediate_key != first.root_key
    names = _names(x509.load_der_x509_certificate(first.root_cert))
    assert names.get_values_for_type(x509.DNSName) == []
    assert names.get_values_for_type(x509.IPAddress) == LOOPBACK


def test_simulation_shows_in_both_names_and_survives_renewal() -> None:
    keys = make_coordinator_keys(
        dns_names=("a.example",), ip_addresses=(), curve="P-256", now=NOW, simulated=True
    )
    for certificate in _certificates(renew_intermediate(keys, NOW)).values():
        (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        assert "(SIMULATION)" in str(name.value)


def test_renewed_intermediate_replaces_only_itself_and_the_marble_root() -> None:
    keys = coordinator_keys()
    later = NOW + timedelta(days=400)
    renewed = renew_intermediate(keys, later)
    assert renewed.root_cert == keys.root_cert
    assert renewed.root_key == keys.root_key
    assert renewed.root_secret == keys.root_secret
    assert renewed.intermediate_key != keys.intermediate_key
    found, old = _certificates(renewed), _certificates(keys)
    assert found["intermediate"].subject == old["intermediate"].subject
    assert _names(found["marble root"]) == _names(old["marble root"])
    assert _bits(found["intermediate"]) == _bits(found["marble root"])
    assert _bits(found["intermediate"]) != _bits(old["intermediate"])
    assert found["intermediate"].not_valid_before_utc == later.replace(microsecond=0)
    found["intermediate"].verify_directly_issued_by(found["root"])


def test_a_time_without_zone_is_never_guessed() -> None:
    with pytest.raises(BrokenError, match="without a zone"):
        renew_intermediate(coordinator_keys(), datetime(2026, 1, 1))  # noqa: DTZ001 under test


@pytest.mark.parametrize(
    ("text", "dns", "addresses"),
    [
        ("", (), ()),
        ("localhost", ("localhost",), ()),
        (" a.example , 10.0.0.1,b.example,,", ("a.example", "b.example"), ("10.0.0.1",)),
        ("2001:DB8:0::1,::ffff:192.0.2.1", (), ("2001:db8::1", "192.0.2.1")),
        ("a,a,10.0.0.1,10.0.0.1", ("a",), ("10.0.0.1",)),
        ("*.example.com", ("*.example.com",), ()),
    ],
)
def test_configured_names_are_told_apart(
    text: str, dns: tuple[str, ...], addresses: tuple[str, ...]
) -> None:
    assert parse_names(text) == (dns, addresses)


@pytest.mark.parametrize(
    "bad", ["a b", "bücher.example", "a..b", "http://a", "fe80::1%eth0", "-" * 64]
)
def test_invalid_configured_name_is_refused_with_its_position(bad: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        parse_names(f"localhost,{bad}")
    (problem,) = refusal.value.problems
    assert problem.at == "[1]"


def test_pem_is_what_the_standard_library_reads() -> None:
    keys = coordinator_keys()
    text = certificate_pem(keys.intermediate_cert, keys.root_cert)
    first, second = x509.load_pem_x509_certificates(text.encode())
    assert first.public_bytes(Encoding.DER) == keys.intermediate_cert
    assert second.public_bytes(Encoding.DER) == keys.root_cert
    assert certificate_pem(keys.root_cert) == ssl.DER_cert_to_PEM_cert(keys.root_cert)
    assert (
        text
        == first.public_bytes(Encoding.PEM).decode() + second.public_bytes(Encoding.PEM).decode()
    )
