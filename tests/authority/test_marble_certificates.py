"""Certificates of workloads: their fields, their verification by clients, and their reading."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given, strategies as st
from support.samples.authority import NOW, coordinator_keys, openssl_text, openssl_verify
from support.samples.signing_request import signing_request

from keyhouse.authority import (
    Curve,
    StoredSecret,
    generate,
    issue_marble_certificate,
    read_marble_certificate,
    read_signing_request,
    renew_intermediate,
)
from keyhouse.authority.x509.marble_certificates import time
from keyhouse.base.byte_reader import unsigned
from keyhouse.wire.secret_types import SecretDefinition, SecretType

MARBLE = UUID("11111111-2222-3333-4444-555555555555")
KEYS = coordinator_keys("P-256")
TYPE_OID = x509.ObjectIdentifier("1.3.9903.2.1")


def issued(
    csr: bytes | None = None,
    *,
    curve: Curve = "P-256",
    marble_type: str = "storage",
    now: datetime = NOW,
) -> StoredSecret:
    keys = coordinator_keys(curve)
    request = read_signing_request(csr or signing_request(), keys)
    return issue_marble_certificate(keys, request, marble=MARBLE, marble_type=marble_type, now=now)


@pytest.mark.parametrize("days", [1, 10_000, 40_000])
def test_its_time_can_be_chosen_and_is_read_back(days: int) -> None:
    request = read_signing_request(signing_request(), KEYS)
    lifetime = timedelta(days=days)
    value = issue_marble_certificate(
        KEYS, request, marble=MARBLE, marble_type="web", now=NOW, lifetime=lifetime
    )
    read = read_marble_certificate(value.cert, KEYS.marble_root_cert)
    assert read is not None
    assert read.end - read.start == lifetime
    assert read.is_valid(NOW)
    assert not read.is_valid(NOW + lifetime + timedelta(seconds=1))


@pytest.mark.parametrize("curve", ["P-256", "P-384"])
def test_it_is_as_the_interface_describes_it(curve: Curve) -> None:
    value = issued(curve=curve)
    keys = coordinator_keys(curve)
    certificate = x509.load_der_x509_certificate(value.cert)
    marble_root = x509.load_der_x509_certificate(keys.marble_root_cert)

    assert certificate.version is x509.Version.v3
    assert certificate.issuer == marble_root.subject
    assert certificate.subject.rfc4514_string() == f"CN={MARBLE}"
    assert 0 < certificate.serial_number < 2**128
    assert certificate.not_valid_before_utc == NOW.replace(microsecond=0)
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert timedelta(days=292 * 365) < lifetime < timedelta(days=293 * 366)
    expected_hash = hashes.SHA256 if curve == "P-256" else hashes.SHA384
    assert isinstance(certificate.signature_hash_algorithm, expected_hash)

    found = {each.oid: each for each in certificate.extensions}
    assert len(found) == 6
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.digital_signature
    assert usage.value.key_agreement
    assert not usage.value.key_cert_sign
    extended = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert set(extended.value) == {
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    }
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=False, path_length=None)
    authority = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    own = marble_root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert authority.key_identifier == own.digest
    marble_type = found[TYPE_OID]
    assert not marble_type.critical
    assert marble_type.value.public_bytes() == b"storage"  # raw, without an ASN.1 header
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert not names.critical
    assert names.value.get_values_for_type(x509.DNSName) == ["localhost"]
    addresses = names.value.get_values_for_type(x509.IPAddress)
    assert [str(address) for address in addresses] == ["127.0.0.1", "::1"]


def test_its_key_is_its_own_and_fresh_each_time() -> None:
    one, other = issued(), issued()

    assert one.private != other.private
    key = load_der_private_key(one.private.reveal(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert public == one.public.reveal()
    certified = x509.load_der_x509_certificate(one.cert).public_key()
    assert certified == key.public_key()


@pytest.mark.parametrize("curve", ["P-256", "P-384"])
def test_openssl_verifies_it_under_both_roots(curve: Curve, tmp_path: Path) -> None:
    keys, leaf = coordinator_keys(curve), issued(curve=curve).cert

    assert "OK" in openssl_verify(leaf, root=keys.marble_root_cert, folder=tmp_path)
    between = keys.intermediate_cert
    assert "OK" in openssl_verify(leaf, root=keys.root_cert, between=between, folder=tmp_path)
    assert "Digital Signature, Key Agreement" in openssl_text(leaf, tmp_path)


def test_the_subject_of_the_request_is_kept_but_for_name_and_organisation() -> None:
    subject = {NameOID.LOCALITY_NAME: "Bochum", NameOID.ORGANIZATION_NAME: "Someone Else"}
    certificate = x509.load_der_x509_certificate(issued(signing_request(subject=subject)).cert)

    assert certificate.subject.rfc4514_string() == f"CN={MARBLE},L=Bochum"


def test_without_names_there_is_no_extension_for_them() -> None:
    certificate = x509.load_der_x509_certificate(issued(signing_request([], [])).cert)

    with pytest.raises(x509.ExtensionNotFound):
        certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_it_is_read_back_under_its_own_marble_root_only() -> None:
    keys, leaf = KEYS, issued(marble_type="tür").cert

    read = read_marble_certificate(leaf, keys.marble_root_cert)
    assert read is not None
    assert (read.marble_type, read.uuid) == ("tür", str(MARBLE))
    assert read.is_valid(NOW)
    assert not read.is_valid(NOW - timedelta(days=1))
    renewed = renew_intermediate(keys, NOW)
    assert read_marble_certificate(leaf, renewed.marble_root_cert) is None
    assert read_marble_certificate(leaf, keys.root_cert) is None


def test_other_certificates_are_nobodys() -> None:
    keys = KEYS
    definition = SecretDefinition(type=SecretType.CERT_ECDSA, size=256, shared=True)
    shared = generate(definition, name="web", keys=keys, now=NOW).cert

    others = (shared, keys.intermediate_cert, keys.marble_root_cert, keys.root_cert, b"", b"junk")
    for other in others:
        assert read_marble_certificate(other, keys.marble_root_cert) is None


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_leaves_it_readable(at: int, change: int) -> None:
    leaf = bytearray(LEAF)
    assert read_marble_certificate(bytes(leaf), KEYS.marble_root_cert) is not None
    leaf[at % len(leaf)] ^= change
    assert read_marble_certificate(bytes(leaf), KEYS.marble_root_cert) is None


def test_signature_with_bits_that_do_not_count_is_refused() -> None:
    leaf = next(cert for cert in (issued().cert for _ in range(500)) if cert[-1] % 2 == 0)
    signature = x509.load_der_x509_certificate(leaf).signature
    unused = len(leaf) - len(signature) - 1
    changed = leaf[:unused] + b"\1" + leaf[unused + 1 :]

    assert leaf[unused] == 0
    assert x509.load_der_x509_certificate(changed).signature == signature  # the library accepts it
    assert read_marble_certificate(leaf, KEYS.marble_root_cert) is not None
    assert read_marble_certificate(changed, KEYS.marble_root_cert) is None


LEAF = issued().cert


@given(st.datetimes(datetime(2026, 1, 1), datetime(2400, 1, 1)), st.integers(0, 2**130))  # noqa: DTZ001
def test_times_and_numbers_are_written_as_the_library_reads_them(
    moment: datetime, number: int
) -> None:
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    certificate = x509.load_der_x509_certificate(issued(now=moment).cert)
    assert certificate.not_valid_before_utc == moment
    assert time(moment)[2:].endswith(b"Z")
    assert int.from_bytes(unsigned(number)[2:]) == number
    assert unsigned(number)[2] < 0x80
