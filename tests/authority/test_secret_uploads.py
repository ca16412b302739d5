"""Secrets uploaded by users."""

from datetime import timedelta
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID
from hypothesis import given, settings, strategies as st
from support.samples.authority import NOW
from support.samples.fixed_keys import unused_rsa_key

from keyhouse.authority import StoredSecret, import_secret
from keyhouse.base.errors import BadRequestError, InvalidError, RefusedError
from keyhouse.base.secret import Secret
from keyhouse.wire.secret_types import SecretDefinition, SecretType, UserSecret

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

RSA, EC, ED = SecretType.CERT_RSA, SecretType.CERT_ECDSA, SecretType.CERT_ED25519
PLAIN, SYMMETRIC = SecretType.PLAIN, SecretType.SYMMETRIC_KEY


@cache
def _key(kind: str) -> Key:
    match kind:
        case "rsa":
            return unused_rsa_key()
        case "p384":
            return ec.generate_private_key(ec.SECP384R1())
        case "k256":
            return ec.generate_private_key(ec.SECP256K1())
        case "ed":
            return ed25519.Ed25519PrivateKey.generate()
        case _:
            return ec.generate_private_key(ec.SECP256R1())


@cache
def _certificate(kind: str) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own")])
    key = _key(kind)
    # Expired on purpose: the coordinator does not check the validity of uploads.
    return (
        x509.CertificateBuilder(name, name, key.public_key(), 5)
        .not_valid_before(NOW - timedelta(days=90))
        .not_valid_after(NOW - timedelta(days=30))
        .sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256())
    )


def _der(kind: str) -> bytes:
    return _certificate(kind).public_bytes(Encoding.DER)


def _pem(kind: str) -> bytes:
    return _certificate(kind).public_bytes(Encoding.PEM)


def _private(
    kind: str,
    encoding: Encoding = Encoding.DER,
    form: PrivateFormat = PrivateFormat.PKCS8,
) -> Secret:
    return Secret(_key(kind).private_bytes(encoding, form, NoEncryption()))


def _public(kind: str, encoding: Encoding = Encoding.DER) -> bytes:
    return _key(kind).public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)


def _import(kind: SecretType, upload: UserSecret, size: int = 0) -> StoredSecret:
    definition = SecretDefinition(type=kind, size=size, user_defined=True)
    return import_secret(definition, upload, name="my key")


def _places(kind: SecretType, upload: UserSecret, size: int = 0) -> list[str]:
    with pytest.raises(InvalidError) as refusal:
        _import(kind, upload, size)
    assert '"my key"' in str(refusal.value)
    assert all(problem.hint for problem in refusal.value.problems)
    return [problem.at for problem in refusal.value.problems]


def test_symmetric_key_of_the_exact_size_is_stored() -> None:
    key = Secret(b"k" * 16)
    assert _import(SYMMETRIC, UserSecret(key=key), 128) == StoredSecret(private=key, public=key)


@pytest.mark.parametrize("value", [b"", b"any bytes", bytes(range(256))])
def test_plain_takes_any_bytes(value: bytes) -> None:
    key = Secret(value)
    assert _import(PLAIN, UserSecret(key=key)) == StoredSecret(private=key, public=key)


@pytest.mark.parametrize("length", [0, 15, 17, 32])
def test_symmetric_key_of_another_length_is_refused(length: int) -> None:
    assert _places(SYMMETRIC, UserSecret(key=Secret(bytes(length))), 128) == ["key"]


@pytest.mark.parametrize("size", [0, 7, -8])
def test_symmetric_key_without_a_usable_size_is_refused(size: int) -> None:
    assert _places(SYMMETRIC, UserSecret(key=Secret(b"")), size) == ["Size"]


@pytest.mark.parametrize("kind", [PLAIN, SYMMETRIC])
@pytest.mark.parametrize("upload", [UserSecret(), UserSecret(cert=b"c"), UserSecret(public=b"p")])
def test_bytes_without_a_key_are_refused(kind: SecretType, upload: UserSecret) -> None:
    assert _places(kind, upload, 128) == ["key"]


@pytest.mark.parametrize("kind", list(SecretType))
@pytest.mark.parametrize(
    "upload",
    [
        UserSecret(key=Secret(b"k"), cert=b"c"),
        UserSecret(key=Secret(b"k"), private=Secret(b"p")),
        UserSecret(key=Secret(b""), public=b""),
    ],
)
def test_key_and_certificate_never_mix(kind: SecretType, upload: UserSecret) -> None:
    with pytest.raises(BadRequestError) as refusal:
        _import(kind, upload, 8)
    assert list(refusal.value.fields) == ["key"]


@pytest.mark.parametrize(
    ("kind", "key", "size"),
    [(RSA, "rsa", 2048), (RSA, "rsa", 0), (EC, "p256", 256), (EC, "p384", 384), (ED, "ed", 0)],
)
@pytest.mark.parametrize("encoding", [Encoding.DER, Encoding.PEM])
def test_certificate_with_its_keys_is_stored_as_der(
    kind: SecretType, key: str, size: int, encoding: Encoding
) -> None:
    upload = UserSecret(
        cert=_certificate(key).public_bytes(encoding),
        private=_private(key, encoding),
        public=_public(key, encoding),
    )
    assert _import(kind, upload, size) == StoredSecret(
        private=_private(key), public=Secret(_public(key)), cert=_der(key)
    )


def test_certificate_alone_gives_its_public_key() -> None:
    stored = _import(EC, UserSecret(cert=_pem("p256")))
    assert stored == StoredSecret(
        private=Secret(b""), public=Secret(_public("p256")), cert=_der("p256")
    )


def test_private_key_in_the_form_of_older_tools_is_stored_as_pkcs8() -> None:
    for encoding in (Encoding.PEM, Encoding.DER):
        private = _private("rsa", encoding, PrivateFormat.TraditionalOpenSSL)
        stored = _import(RSA, UserSecret(cert=_der("rsa"), private=private))
        assert stored.private == _private("rsa")


def test_without_a_size_any_curve_is_taken() -> None:
    assert _import(EC, UserSecret(cert=_der("k256"))).cert == _der("k256")


@pytest.mark.parametrize(
    ("kind", "key", "size"),
    [
        (RSA, "p256", 0),
        (EC, "rsa", 0),
        (ED, "p256", 0),
        (EC, "ed", 0),
        (RSA, "rsa", 3072),
        (EC, "p256", 384),
        (EC, "k256", 256),  # a different curve of 256 bits
        (EC, "p256", 255),
    ],
)
def test_certificate_of_another_type_or_size_is_refused(
    kind: SecretType, key: str, size: int
) -> None:
    assert _places(kind, UserSecret(cert=_der(key), private=_private(key)), size) == ["cert"]


def test_rsa_key_that_would_keep_the_machine_busy_is_refused_before_its_private_key() -> None:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own")])
    huge = rsa.RSAPublicNumbers(65537, (1 << 8199) + 1).public_key()
    builder = x509.CertificateBuilder(name, name, huge, 5, NOW, NOW + timedelta(days=1))
    cert = builder.sign(_key("p256"), SHA256()).public_bytes(Encoding.DER)
    assert _places(RSA, UserSecret(cert=cert, private=_private("rsa"))) == ["cert"]


def test_ed25519_has_no_size() -> None:
    assert _places(ED, UserSecret(cert=_der("ed")), 256) == ["cert"]


@pytest.mark.parametrize("kind", [RSA, EC, ED])
def test_certificate_types_need_a_certificate(kind: SecretType) -> None:
    assert _places(kind, UserSecret()) == ["cert"]
    assert _places(kind, UserSecret(private=_private("p256"))) == ["cert"]
    assert _places(kind, UserSecret(key=Secret(b""))) == ["key"]


@pytest.mark.parametrize(
    "cert",
    [
        b"",
        b"garbage",
        _der("p256") + b"\0",
        _der("p256")[:-1],
        _pem("p256") * 2,
        _pem("p256").replace(b"CERTIFICATE", b"PUBLIC KEY"),
        _private("p256", Encoding.PEM).reveal() + _pem("p256"),
        b"x" * 65537,
    ],
    ids=["empty", "garbage", "trailing", "cut", "two", "label", "with key", "long"],
)
def test_what_is_not_exactly_one_certificate_is_refused(cert: bytes) -> None:
    assert _places(EC, UserSecret(cert=cert)) == ["cert"]


def test_text_before_a_pem_block_is_passed_over() -> None:
    stored = _import(EC, UserSecret(cert=b"subject=CN = own\n" + _pem("p256")))
    assert stored.cert == _der("p256")


@pytest.mark.parametrize("public", [b"", b"garbage", b"x" * 65537, _public("p384")])
def test_public_key_of_another_certificate_is_refused(public: bytes) -> None:
    assert _places(EC, UserSecret(cert=_der("p256"), public=public)) == ["public"]


@pytest.mark.parametrize(
    "private",
    [
        Secret(b""),
        Secret(b"garbage"),
        Secret(b"x" * 65537),
        _private("p384"),
        _private("rsa"),
        Secret(_private("p256").reveal() + b"\0"),
        Secret(
            _key("p256").private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pass")
            )
        ),
        Secret(_public("p256")),
    ],
    ids=["empty", "garbage", "long", "p384", "rsa", "trailing", "encrypted", "public"],
)
def test_private_key_that_does_not_fit_is_refused(private: Secret) -> None:
    assert _places(EC, UserSecret(cert=_der("p256"), private=private)) == ["private"]


def test_refusals_repeat_no_value() -> None:
    hidden = b"hidden-value-of-a-user"
    for kind in SecretType:
        for upload in (
            UserSecret(key=Secret(hidden)),
            UserSecret(key=Secret(hidden), cert=hidden),
            UserSecret(cert=hidden, private=Secret(hidden), public=hidden),
            UserSecret(cert=_der("p256"), private=Secret(hidden), public=hidden),
        ):
            try:
                _import(kind, upload, 8)
            except RefusedError as refusal:
                shown = f"{refusal} {refusal!r} {refusal.__dict__}"
                assert "hidden" not in shown
                assert refusal.__cause__ is None  # noqa: PT017
                assert refusal.__suppress_context__ or refusal.__context__ is None  # noqa: PT017


optional = st.none() | st.binary(max_size=80)


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(SecretType),
    size=st.sampled_from([0, 8, 128, 256, 2048]),
    key=optional,
    cert=optional | st.sampled_from([_der("p256"), _pem("p256"), _der("rsa")]),
    private=optional | st.just(_private("p256").reveal()),
    public=optional | st.just(_public("p256")),
)
def test_garbage_is_stored_whole_or_refused_by_us(
    kind: SecretType,
    size: int,
    key: bytes | None,
    cert: bytes | None,
    private: bytes | None,
    public: bytes | None,
) -> None:
    upload = UserSecret(
        key=None if key is None else Secret(key),
        cert=cert,
        private=None if private is None else Secret(private),
        public=public,
    )
    try:
        stored = _import(kind, upload, size)
    except (BadRequestError, InvalidError):
        return
    assert stored.private == upload.key if key is not None else stored.cert


@pytest.mark.filterwarnings("ignore:Parsed a serial number:UserWarning")
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_certificate_and_key_are_taken_or_refused_by_us(data: st.DataObject) -> None:
    cert, private = bytearray(_der("p256")), bytearray(_private("p256").reveal())
    target = cert if data.draw(st.booleans()) else private
    for _ in range(data.draw(st.integers(1, 3))):
        target[data.draw(st.integers(0, len(target) - 1))] ^= data.draw(st.integers(1, 255))
    upload = UserSecret(cert=bytes(cert), private=Secret(bytes(private)))
    try:
        stored = _import(EC, upload, 256)
    except InvalidError:
        return
    assert stored.public == Secret(_public("p256"))
