"""How large keys may be, in bits, for each type of secret."""

from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from keyhouse.base import rsa_keys
from keyhouse.base.errors import Problem
from keyhouse.wire.secret_types import SecretDefinition, SecretType

__all__ = ["CURVES", "size_problems"]

# P-224 and P-521 beside those of the coordinator itself.
CURVES: Final[dict[int, type[ec.EllipticCurve]]] = {
    224: ec.SECP224R1,
    256: ec.SECP256R1,
    384: ec.SECP384R1,
    521: ec.SECP521R1,
}

_BYTE: Final = 8
_DERIVED_MOST: Final = 255 * 32 * _BYTE  # the limit of HKDF-SHA256, RFC 5869 2.3
_RANDOM_MOST: Final = 1024 * 1024 * _BYTE


def size_problems(definition: SecretDefinition) -> tuple[Problem, ...]:
    """Return what is wrong with ``Size`` for a value of this type.

    A certificate that a user uploads may leave the size open (0). Source: manifest format, "Types
    and sizes".
    """
    if definition.user_defined and definition.type.is_certificate and definition.size == 0:
        return ()
    reason = _reason(definition)
    return (Problem("Size", *reason),) if reason else ()


def _reason(definition: SecretDefinition) -> tuple[str, str] | None:
    size = definition.size
    match definition.type:
        case SecretType.SYMMETRIC_KEY:
            stored = definition.shared or definition.user_defined
            return _symmetric_reason(size, _RANDOM_MOST if stored else _DERIVED_MOST)
        case SecretType.CERT_RSA if not rsa_keys.SMALLEST_GENERATED <= size <= rsa_keys.LARGEST:
            least, most = rsa_keys.SMALLEST_GENERATED, rsa_keys.LARGEST
            hint = f"give {least} to {most} bits, such as 3072"
            return "is not a size for RSA keys", hint
        case SecretType.CERT_ECDSA if size not in CURVES:
            return "is not the size of a curve", "give 224, 256, 384 or 521"
        case SecretType.CERT_ED25519 if size != 0:
            return "is given for Ed25519, which has one size only", "leave it out"
        case _:
            return None


def _symmetric_reason(size: int, most: int) -> tuple[str, str] | None:
    if size <= 0 or size % _BYTE:
        return "is not a positive multiple of 8", "give the number of bits, such as 256"
    if size > most:
        return f"is over the limit of {most} bits", "use a smaller key, and derive more from it"
    return None
