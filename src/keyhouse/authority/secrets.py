"""The secrets of a manifest: generates values, and checks uploaded values."""

import secrets
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificatePublicKeyTypes,
    PrivateKeyTypes,
    PublicKeyTypes,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)

from keyhouse.authority.keys import CURVES, CoordinatorKeys, StoredSecret
from keyhouse.authority.library import LIBRARY_REFUSALS
from keyhouse.authority.x509.certificates import (
    CertificatePlan,
    issue,
    plan_certificate,
    template_problems,
)
from keyhouse.base import rsa_keys
from keyhouse.base.errors import BadRequestError, InvalidError, Problem
from keyhouse.base.printable import at, quoted
from keyhouse.base.secret import Secret
from keyhouse.wire.secret_types import SecretDefinition, SecretType, UserSecret, size_problem

_PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_RSA_EXPONENT = 65537  # F4, the usual exponent
_PLAIN = Problem(
    "Type", "is plain, which cannot be generated", "set UserDefined; a user then uploads the value"
)

_PEM: Final = b"-----BEGIN "
_PEM_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
# An RSA-8192 key takes 5 KB in DER. Far larger keys keep OpenSSL busy for minutes.
_LONGEST: Final = 64 * 1024
_FAMILIES: Final[dict[SecretType, tuple[type, str]]] = {
    SecretType.CERT_RSA: (rsa.RSAPublicKey, "RSA"),
    SecretType.CERT_ECDSA: (ec.EllipticCurvePublicKey, "ECDSA"),
    SecretType.CERT_ED25519: (ed25519.Ed25519PublicKey, "Ed25519"),
}


def is_generated_with_manifest(definition: SecretDefinition) -> bool:
    """Return whether the coordinator generates this secret when a manifest takes effect.

    True for shared secrets that are not user-defined. Users upload user-defined secrets. Secrets
    that are not shared have no value in the state, because each activation makes a new value.
    """
    return definition.shared and not definition.user_defined


def generate(
    definition: SecretDefinition, *, name: str, keys: CoordinatorKeys, now: datetime
) -> StoredSecret:
    """Return a new value of the secret ``name``: random bytes, or a key with its certificate.

    Used for shared secrets, and for the certificates that an activation makes. Raises
    ``InvalidError`` with every problem, with places as in ``trial``. Generating an RSA key takes
    from 0.05 s (2048 bits) to seconds. Source: ``docs/reference/manifest.md``, "Secrets".
    """
    problems = _problems_of_kind(definition)
    if problems:
        raise _not_generated(name, problems)
    if definition.type is SecretType.SYMMETRIC_KEY:
        value = Secret(secrets.token_bytes(definition.size // 8))
        return StoredSecret(private=value, public=value)
    plan = plan_certificate(definition, keys=keys, now=now)
    if isinstance(plan, tuple):
        raise _not_generated(name, plan)
    try:
        return _with_certificate(_generate_key(definition), plan, keys)
    except InvalidError as refusal:
        raise _not_generated(name, refusal.problems) from None


def trial(
    definition: SecretDefinition,
    *,
    name: str,
    keys: CoordinatorKeys,
    now: datetime,
    building: bool = True,
) -> tuple[Problem, ...]:
    """Return every reason why ``generate`` would refuse this secret; empty: none.

    Used for the check of a manifest. Places are as in the manifest (``Secrets.web.Cert.Subject``).
    The certificate is built over a temporary key, so no RSA key is generated. Without ``building``,
    only the single parts of the certificate are checked, in less time. A user-defined secret is not
    generated, so only its size is checked.
    """
    problems = size_problems(definition)
    if not definition.user_defined:
        if definition.type is SecretType.PLAIN:
            problems = (_PLAIN,)
        elif definition.type.is_certificate:
            problems += template_problems(definition, keys=keys, now=now, building=building)
    return _placed(name, problems)


def size_problems(definition: SecretDefinition) -> tuple[Problem, ...]:
    """Return the problem of the field ``Size`` of ``definition``; empty for a valid size."""
    shared, user_defined = definition.shared, definition.user_defined
    problem = size_problem(
        definition.type, definition.size, shared=shared, user_defined=user_defined
    )
    return (Problem("Size", problem, "give the size in bits"),) if problem else ()


def _with_certificate(
    key: _PrivateKey, plan: CertificatePlan, keys: CoordinatorKeys
) -> StoredSecret:
    public_key = key.public_key()
    return StoredSecret(
        private=Secret(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())),
        public=Secret(public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)),
        cert=issue(plan, public_key, keys),
    )


def _problems_of_kind(definition: SecretDefinition) -> tuple[Problem, ...]:
    if definition.user_defined:
        hint = "upload the value: keyhouse secret set"
        return (Problem("UserDefined", "is set, so a user has to upload the value", hint),)
    if definition.type is SecretType.PLAIN:
        return (_PLAIN,)
    if not (definition.shared or definition.type.is_certificate):
        hint = "set Shared for one value in all marbles"
        return (Problem("Shared", "is not set, so each activation derives the value", hint),)
    return size_problems(definition)


def _not_generated(name: str, problems: tuple[Problem, ...]) -> InvalidError:
    return InvalidError(f"secret {quoted(name)} cannot be generated", _placed(name, problems))


def _placed(name: str, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    secret = at("Secrets", name)
    return tuple(Problem(f"{secret}.{p.at}", p.problem, p.hint) for p in problems)


def _generate_key(definition: SecretDefinition) -> _PrivateKey:
    match definition.type:
        case SecretType.CERT_RSA:
            return rsa.generate_private_key(_RSA_EXPONENT, definition.size)
        case SecretType.CERT_ECDSA:
            return ec.generate_private_key(CURVES[definition.size]())
        case _:
            return ed25519.Ed25519PrivateKey.generate()


class _UnreadableError(ValueError):
    """The uploaded bytes do not have the form of their field, such as ``private``."""


def import_secret(definition: SecretDefinition, upload: UserSecret, *, name: str) -> StoredSecret:
    """Return ``upload``, a value of the secret ``name``, in its stored form.

    Certificates and keys are returned as DER: certificate bytes unchanged, private keys as PKCS #8,
    public keys as SubjectPublicKeyInfo. An expired certificate is accepted, as in all versions of
    the interface: relying parties check validity at the time of use. Raises ``BadRequestError`` if
    fields of a key and of a certificate are mixed. Raises ``InvalidError`` for a value that does
    not fit the definition; places are relative to ``upload``, such as ``cert``. Source:
    ``docs/reference/manifest.md``, "Secrets".
    """
    certificate_fields = (upload.cert, upload.private, upload.public)
    if upload.key is not None and certificate_fields != (None, None, None):
        raise BadRequestError(
            f"secret {quoted(name)} mixes a key with a certificate",
            fields={"key": "is given together with cert, private or public"},
            hint="send either key alone, or cert with private and public",
        )
    if definition.type in _FAMILIES:
        return _import_certificate(definition, upload, name)
    return _import_bytes(definition, upload, name)


def _import_bytes(definition: SecretDefinition, upload: UserSecret, name: str) -> StoredSecret:
    value = upload.key
    if value is None:
        raise _cannot_be_set(name, Problem("key", "is missing", "send the value in the field key"))
    if definition.type is SecretType.SYMMETRIC_KEY:
        problems = size_problems(definition)
        if problems:
            raise _cannot_be_set(name, *problems)
        wanted = definition.size // 8
        if len(value) != wanted:
            hint = f"send {wanted} bytes, as the manifest requires"
            raise _cannot_be_set(name, Problem("key", f"has {len(value)} bytes", hint))
    return StoredSecret(private=value, public=value)


def _import_certificate(
    definition: SecretDefinition, upload: UserSecret, name: str
) -> StoredSecret:
    if upload.cert is None:
        hint = "send the certificate in the field cert"
        if upload.key is not None:
            raise _cannot_be_set(name, Problem("key", "cannot be the value of a certificate", hint))
        raise _cannot_be_set(name, Problem("cert", "is missing", hint))
    try:
        certificate = _read_certificate(upload.cert)
        public_key = certificate.public_key()
        public = _spki(public_key)
    except LIBRARY_REFUSALS:
        hint = "send exactly one certificate in DER or PEM"
        raise _cannot_be_set(name, Problem("cert", "is not a certificate", hint)) from None
    problems = _key_problems(definition, public_key)
    if upload.public is not None:
        problems += _public_problems(upload.public, public)
    private = Secret(b"")
    # Only for a fitting certificate, because parsing a private key of another size may take long.
    if upload.private is not None and not problems:
        private, problems = _read_private(upload.private, public)
    if problems:
        raise _cannot_be_set(name, *problems)
    return StoredSecret(
        private=private, public=Secret(public), cert=certificate.public_bytes(Encoding.DER)
    )


def _read_certificate(raw: bytes) -> x509.Certificate:
    if len(raw) > _LONGEST:
        raise _UnreadableError
    if not _is_pem(raw):
        return x509.load_der_x509_certificate(raw)
    if raw.count(_PEM) != 1 or _PEM_CERTIFICATE not in raw:
        raise _UnreadableError
    return x509.load_pem_x509_certificate(raw)


def _key_problems(
    definition: SecretDefinition, public_key: CertificatePublicKeyTypes
) -> tuple[Problem, ...]:
    family, family_name = _FAMILIES[definition.type]
    if not isinstance(public_key, family):
        hint = f"send a certificate of type {definition.type.value}, as the manifest requires"
        return (Problem("cert", f"does not hold an {family_name} key", hint),)
    if isinstance(public_key, rsa.RSAPublicKey) and public_key.key_size > rsa_keys.LARGEST:
        hint = f"use a key of at most {rsa_keys.LARGEST} bits"
        return (Problem("cert", "holds an RSA key that is too large", hint),)
    if definition.size and not _has_size(public_key, definition.size):
        hint = f"send a certificate for a key of {definition.size} bits, as the manifest requires"
        return (Problem("cert", "holds a key of another size", hint),)
    return ()


def _has_size(public_key: CertificatePublicKeyTypes, size: int) -> bool:
    if isinstance(public_key, rsa.RSAPublicKey):
        return public_key.key_size == size
    if isinstance(public_key, ec.EllipticCurvePublicKey):
        # Other curves have 256 bits too. A size names exactly one curve.
        wanted = CURVES.get(size)
        return wanted is not None and public_key.curve.name == wanted().name
    return False


def _public_problems(given: bytes, expected: bytes) -> tuple[Problem, ...]:
    try:
        if len(given) > _LONGEST:
            raise _UnreadableError
        load = load_pem_public_key if _is_pem(given) else load_der_public_key
        found = load(given).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except LIBRARY_REFUSALS:
        hint = "send a SubjectPublicKeyInfo in DER or PEM, or leave the field out"
        return (Problem("public", "is not a public key", hint),)
    if found != expected:
        hint = "leave the field out; the certificate contains the public key"
        return (Problem("public", "is not the key of the certificate", hint),)
    return ()


def _read_private(given: Secret, public: bytes) -> tuple[Secret, tuple[Problem, ...]]:
    try:
        key = _load_private(given)
        own_public = _spki(key.public_key())
        pkcs8 = Secret(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))
    except LIBRARY_REFUSALS:
        hint = "send PKCS #8 in DER or PEM, without a pass phrase"
        return Secret(b""), (Problem("private", "is not a private key", hint),)
    if own_public != public:
        hint = "send the private key of the certificate"
        return Secret(b""), (Problem("private", "does not belong to the certificate", hint),)
    return pkcs8, ()


def _load_private(given: Secret) -> PrivateKeyTypes:
    raw = given.reveal()
    if len(raw) > _LONGEST:
        raise _UnreadableError
    load = load_pem_private_key if _is_pem(raw) else load_der_private_key
    return load(raw, password=None)


def _spki(public_key: PublicKeyTypes) -> bytes:
    return public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _is_pem(raw: bytes) -> bool:
    return raw.lstrip().startswith(_PEM) or b"\n" + _PEM in raw


def _cannot_be_set(name: str, *problems: Problem) -> InvalidError:
    return InvalidError(f"secret {quoted(name)} cannot be set", problems)
