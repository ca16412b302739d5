"""Generating the secrets that a manifest defines."""

import secrets
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from keyhouse.authority.curve import CURVES
from keyhouse.authority.stored_keys import CoordinatorKeys, StoredSecret
from keyhouse.authority.x509.certificates import (
    CertificatePlan,
    issue,
    plan_certificate,
    template_problems,
)
from keyhouse.base.errors import InvalidError, Problem
from keyhouse.base.printable import at, quoted
from keyhouse.base.secret import Secret
from keyhouse.wire.secret_types import SecretDefinition, SecretType, size_problem

_PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_RSA_EXPONENT = 65537
_PLAIN = Problem(
    "Type", "is plain, which cannot be generated", "set UserDefined, so that a user uploads it"
)


def is_generated_with_manifest(definition: SecretDefinition) -> bool:
    """Tell whether setting a manifest generates a value of this secret, to be kept in the state.

    Per-marble values come into being when a marble is activated, and no placeholder is stored for
    them; user-defined ones are uploaded.
    """
    return definition.shared and not definition.user_defined


def generate(
    definition: SecretDefinition, *, name: str, keys: CoordinatorKeys, now: datetime
) -> StoredSecret:
    """Return a fresh value: random bytes, or a key with its certificate.

    For shared secrets, and for the per-marble certificates of an activation. Raises
    ``InvalidError`` with every problem (places as in ``trial``) before any key is generated. An RSA
    key costs from 0.05 s (2048 bits) to seconds. Source: manifest format, "Types and sizes".
    """
    problems = _problems_of_kind(definition)
    if problems:
        raise _refusal(name, problems)
    if definition.type is SecretType.SYMMETRIC_KEY:
        value = Secret(secrets.token_bytes(definition.size // 8))
        return StoredSecret(private=value, public=value)
    plan = plan_certificate(definition, keys=keys, now=now)
    if isinstance(plan, tuple):
        raise _refusal(name, plan)
    try:
        return _with_certificate(_generate_key(definition), plan, keys)
    except InvalidError as refusal:
        raise _refusal(name, refusal.problems) from None


def trial(
    definition: SecretDefinition,
    *,
    name: str,
    keys: CoordinatorKeys,
    now: datetime,
    building: bool = True,
) -> tuple[Problem, ...]:
    """Return everything for which a value of this secret could not be made; empty if nothing.

    Places are those of the manifest (``Secrets.web.Cert.Subject.CommonName``). The certificate is
    really built, over a temporary key; no RSA key is generated. Without ``building`` it is only
    planned: the little that shows when all parts come together is left to ``generate``. Nothing is
    made of user-defined secrets, so theirs is only the rule of sizes.
    """
    problems = size_problems(definition)
    if not definition.user_defined:
        if definition.type is SecretType.PLAIN:
            problems = (_PLAIN,)
        elif definition.type.is_certificate:
            problems += template_problems(definition, keys=keys, now=now, building=building)
    return _placed(name, problems)


def size_problems(definition: SecretDefinition) -> tuple[Problem, ...]:
    """Return what is wrong with ``Size`` for a value of this type."""
    shared, user_defined = definition.shared, definition.user_defined
    problem = size_problem(
        definition.type, definition.size, shared=shared, user_defined=user_defined
    )
    return (Problem("Size", problem, "in bits"),) if problem else ()


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
        return (Problem("UserDefined", "is set, so the value is uploaded"),)
    if definition.type is SecretType.PLAIN:
        return (_PLAIN,)
    if not (definition.shared or definition.type.is_certificate):
        return (Problem("Shared", "is not set, so the value is derived for each marble"),)
    return size_problems(definition)


def _refusal(name: str, problems: tuple[Problem, ...]) -> InvalidError:
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
