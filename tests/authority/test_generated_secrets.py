"""Values that the coordinator generates."""

import hashlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_private_key,
)
from hypothesis import given, settings, strategies as st
from support.samples.authority import NOW, coordinator_keys

from keyhouse.authority import generate, is_generated_with_manifest, trial
from keyhouse.base.errors import InvalidError
from keyhouse.wire.secret_types import CertificateTemplate, SecretDefinition, SecretType

CERTIFICATES = [
    (SecretType.CERT_RSA, 2048),
    (SecretType.CERT_ECDSA, 224),
    (SecretType.CERT_ECDSA, 256),
    (SecretType.CERT_ECDSA, 384),
    (SecretType.CERT_ECDSA, 521),
    (SecretType.CERT_ED25519, 0),
]


def _problems(definition: SecretDefinition) -> list[str]:
    found = trial(definition, name="web", keys=coordinator_keys(), now=NOW)
    return [problem.at for problem in found]


@pytest.mark.parametrize(("kind", "size"), CERTIFICATES)
@pytest.mark.parametrize("shared", [True, False])
def test_certificate_private_and_public_key_belong_together(
    kind: SecretType,
    size: int,
    shared: bool,  # noqa: FBT001 a table
) -> None:
    definition = SecretDefinition(type=kind, size=size, shared=shared)
    value = generate(definition, name="web", keys=coordinator_keys(), now=NOW)
    private = load_der_private_key(value.private.reveal(), None)
    spki = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert spki == value.public.reveal()
    certificate = x509.load_der_x509_certificate(value.cert)
    assert certificate.public_key() == private.public_key()
    certificate.verify_directly_issued_by(
        x509.load_der_x509_certificate(coordinator_keys().marble_root_cert)
    )
    if isinstance(private, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        assert private.key_size == size
    if isinstance(private, rsa.RSAPrivateKey):
        assert private.private_numbers().public_numbers.e == 65537


@pytest.mark.parametrize(("kind", "size"), CERTIFICATES)
def test_identifier_of_a_ca_is_the_hash_of_its_key_bits(kind: SecretType, size: int) -> None:
    definition = SecretDefinition(
        type=kind, size=size, shared=True, cert=CertificateTemplate(is_ca=True)
    )
    value = generate(definition, name="ca", keys=coordinator_keys(), now=NOW)
    # In all these keys the bits follow the header of one BIT STRING, up to the end.
    algorithm_and_bits = value.public.reveal()
    certificate = x509.load_der_x509_certificate(value.cert)
    own = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    digests = {
        hashlib.sha256(algorithm_and_bits[start:]).digest()[:20]
        for start in range(len(algorithm_and_bits))
        if algorithm_and_bits[start - 1] == 0
    }
    assert own.digest in digests


def test_each_call_generates_new_values() -> None:
    definition = SecretDefinition(type=SecretType.CERT_ECDSA, size=256, shared=True)
    first, second = (
        generate(definition, name="web", keys=coordinator_keys(), now=NOW) for _ in range(2)
    )
    assert first.private != second.private
    assert first.cert != second.cert


@pytest.mark.parametrize("bits", [8, 128, 256, 1024 * 1024 * 8])
def test_shared_key_is_random_bytes_of_the_size(bits: int) -> None:
    definition = SecretDefinition(type=SecretType.SYMMETRIC_KEY, size=bits, shared=True)
    value = generate(definition, name="key", keys=coordinator_keys(), now=NOW)
    assert len(value.private) == bits // 8
    assert value.private == value.public
    assert value.cert == b""
    if bits > 64:
        again = generate(definition, name="key", keys=coordinator_keys(), now=NOW)
        assert again.private != value.private


@pytest.mark.parametrize(
    ("kind", "size", "shared"),
    [
        (SecretType.SYMMETRIC_KEY, 0, True),
        (SecretType.SYMMETRIC_KEY, 7, True),
        (SecretType.SYMMETRIC_KEY, -8, True),
        (SecretType.SYMMETRIC_KEY, 1024 * 1024 * 8 + 8, True),
        (SecretType.SYMMETRIC_KEY, 65288, False),
        (SecretType.CERT_RSA, 0, True),
        (SecretType.CERT_RSA, 1023, True),
        (SecretType.CERT_RSA, 8193, False),
        (SecretType.CERT_ECDSA, 0, True),
        (SecretType.CERT_ECDSA, 512, True),
        (SecretType.CERT_ED25519, 256, True),
    ],
)
def test_size_that_its_type_does_not_have_is_refused(
    kind: SecretType,
    size: int,
    shared: bool,  # noqa: FBT001 a table
) -> None:
    definition = SecretDefinition(type=kind, size=size, shared=shared)
    assert _problems(definition) == ["Secrets.web.Size"]
    with pytest.raises(InvalidError):
        generate(definition, name="web", keys=coordinator_keys(), now=NOW)


@pytest.mark.parametrize(
    ("definition", "place"),
    [
        (SecretDefinition(type=SecretType.PLAIN, shared=True), "Type"),
        (SecretDefinition(type=SecretType.SYMMETRIC_KEY, size=128), "Shared"),
        (
            SecretDefinition(type=SecretType.CERT_ED25519, shared=True, user_defined=True),
            "UserDefined",
        ),
    ],
)
def test_what_is_not_generated_is_refused(definition: SecretDefinition, place: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        generate(definition, name="web", keys=coordinator_keys(), now=NOW)
    assert [problem.at for problem in refusal.value.problems] == [f"Secrets.web.{place}"]


def test_trial_of_what_is_never_generated_is_about_sizes_only() -> None:
    assert _problems(SecretDefinition(type=SecretType.PLAIN)) == ["Secrets.web.Type"]
    assert _problems(SecretDefinition(type=SecretType.PLAIN, user_defined=True)) == []
    assert _problems(SecretDefinition(type=SecretType.CERT_RSA, user_defined=True)) == []
    assert _problems(SecretDefinition(type=SecretType.SYMMETRIC_KEY, size=65280)) == []
    assert _problems(SecretDefinition(type=SecretType.CERT_RSA, size=7, user_defined=True)) == [
        "Secrets.web.Size"
    ]


def test_only_shared_values_are_made_with_the_manifest() -> None:
    kind = SecretType.SYMMETRIC_KEY
    assert is_generated_with_manifest(SecretDefinition(type=kind, shared=True))
    assert not is_generated_with_manifest(SecretDefinition(type=kind))
    assert not is_generated_with_manifest(
        SecretDefinition(type=kind, shared=True, user_defined=True)
    )


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from([SecretType.SYMMETRIC_KEY, SecretType.CERT_ECDSA, SecretType.PLAIN]),
    size=st.one_of(st.integers(), st.sampled_from([224, 256, 384, 521])),
    days=st.integers(0, 2**64 - 1),
    shared=st.booleans(),
)
def test_trial_and_generation_agree(
    kind: SecretType,
    size: int,
    days: int,
    shared: bool,  # noqa: FBT001 drawn
) -> None:
    definition = SecretDefinition(type=kind, size=size, valid_for=days, shared=shared)
    problems = _problems(definition)
    if kind is SecretType.SYMMETRIC_KEY and not shared:
        return
    if problems:
        with pytest.raises(InvalidError):
            generate(definition, name="web", keys=coordinator_keys(), now=NOW)
    else:
        generate(definition, name="web", keys=coordinator_keys(), now=NOW)
