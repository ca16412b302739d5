"""Certificates of a renewal: for the workload's key, with a lineage, for a short time."""

import hashlib
from datetime import timedelta
from uuid import UUID

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.samples.authority import NOW as SAMPLED, coordinator_keys
from support.samples.signing_request import signing_request

from keyhouse.authority import (
    MarbleLeaf,
    certify_marble,
    issue_marble_certificate,
    read_claimed_lineage,
    read_marble_certificate,
    read_signing_request,
    requested_key,
)
from keyhouse.base.errors import InvalidError
from keyhouse.wire.lineage import LINEAGE, LineageFacts

MARBLE = UUID("11111111-2222-3333-4444-555555555555")
KEYS = coordinator_keys("P-256")
NOW = SAMPLED.replace(microsecond=0)
FACTS = LineageFacts(bytes(range(16)), "sgx", "UpToDate", int(NOW.timestamp()))
HOUR = timedelta(hours=1)


def request_over(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def renewed(lifetime: timedelta = HOUR) -> tuple[bytes, bytes]:
    """Return a renewed certificate and its public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    csr = request_over(key)
    public = requested_key(csr)
    leaf = MarbleLeaf(MARBLE, "web", public, FACTS)
    request = read_signing_request(csr, KEYS)
    return certify_marble(KEYS, request, leaf, now=NOW, end=NOW + lifetime), public


def test_a_renewed_certificate_names_its_lineage_and_its_own_key() -> None:
    der, public = renewed()
    read = read_marble_certificate(der, KEYS.marble_root_cert)
    assert read is not None
    assert (read.marble_type, read.uuid, read.lineage) == ("web", str(MARBLE), FACTS)
    assert read.key == hashlib.sha256(public).digest()
    certificate = x509.load_der_x509_certificate(der)
    encoded = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert encoded == public


@pytest.mark.parametrize(
    ("lifetime", "before"),
    [(timedelta(minutes=10), timedelta(minutes=1)), (timedelta(days=7), timedelta(minutes=5))],
    ids=["tenth", "five-minutes"],
)
def test_the_certificate_begins_earlier_for_other_clocks(
    lifetime: timedelta, before: timedelta
) -> None:
    read = read_marble_certificate(renewed(lifetime)[0], KEYS.marble_root_cert)
    assert read is not None
    assert (NOW - read.start, read.end - NOW) == (before, lifetime)


def test_an_activation_of_a_renewable_type_has_the_lineage_as_well() -> None:
    request = read_signing_request(signing_request(), KEYS)
    issued = issue_marble_certificate(
        KEYS, request, marble=MARBLE, marble_type="web", now=NOW, lifetime=HOUR, lineage=FACTS
    )
    read = read_marble_certificate(issued.cert, KEYS.marble_root_cert)
    assert read is not None
    assert read.lineage == FACTS
    assert read.key == hashlib.sha256(issued.public.reveal()).digest()


def test_a_certificate_without_renewals_has_no_lineage() -> None:
    request = read_signing_request(signing_request(), KEYS)
    issued = issue_marble_certificate(
        KEYS, request, marble=MARBLE, marble_type="web", now=NOW, lifetime=HOUR
    )
    read = read_marble_certificate(issued.cert, KEYS.marble_root_cert)
    assert read is not None
    assert read.lineage is None
    assert read.start == NOW


def test_a_claim_names_its_lineage_and_its_issuer_without_a_proof() -> None:
    der, public = renewed()
    claim = read_claimed_lineage(der)
    assert claim is not None
    assert (claim.id, claim.key) == (FACTS.id, hashlib.sha256(public).digest())
    assert claim.names_issuer(KEYS.marble_root_cert)
    assert not claim.names_issuer(coordinator_keys("P-384").marble_root_cert)


def test_a_claim_may_name_no_issuer() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    facts = x509.UnrecognizedExtension(x509.ObjectIdentifier(LINEAGE), FACTS.encode())
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + HOUR)
        .add_extension(facts, critical=False)
        .sign(key, hashes.SHA256())
    )
    claim = read_claimed_lineage(made.public_bytes(Encoding.DER))
    assert claim is not None
    assert claim.id == FACTS.id
    assert not claim.names_issuer(KEYS.marble_root_cert)


def test_only_keys_on_two_curves_are_certified() -> None:
    for curve in (ec.SECP256R1(), ec.SECP384R1()):
        requested_key(request_over(ec.generate_private_key(curve)))
    for key in (ec.generate_private_key(ec.SECP521R1()), rsa.generate_private_key(65537, 2048)):
        with pytest.raises(InvalidError):
            requested_key(request_over(key))
