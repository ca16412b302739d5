"""All signatures of the coordinator's root key.

A signature for one purpose must never pass for another. The list of message kinds is closed, and no
message of one kind is also a message of another kind:

- a certificate: its to-be-signed part begins with the bytes 30 8x, which are not text;
- a manifest: JSON, so its first byte other than white space is ``{``;
- the text of sign-quote: base64 and a TCB status, letters and digits;
- any other kind: begins with its own context, which ends with a NUL.

All signatures are ECDSA in ASN.1 DER, deterministic (RFC 6979), over SHA-256. Certificates use the
hash of their curve.
"""

from base64 import b64encode
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.authority.keys import CoordinatorKeys, private_key_of
from keyhouse.base.errors import BadRequestError, BrokenError
from keyhouse.transparency.root_signature import LOG_KEY_CONTEXT
from keyhouse.wire.tcb_status import TcbStatus

EPHEMERAL_CONTEXT: Final = b"keyhouse ephemeral v1\0"
RECOVERY_INDEX_CONTEXT: Final = b"keyhouse recovery index v1\0"

_JSON_SPACE: Final = b" \t\r\n"
_STATUSES: Final = frozenset({*TcbStatus, "Unknown"})


def sign_manifest(keys: CoordinatorKeys, raw_manifest: bytes) -> bytes:
    """Return the root key's signature over the exact bytes of a checked manifest.

    ASN.1 DER over SHA-256 of the bytes. Source: ``docs/reference/manifest.md``, "JSON".
    """
    if not raw_manifest.lstrip(_JSON_SPACE).startswith(b"{"):
        raise BrokenError("a manifest that is not a JSON object cannot be signed")
    return _sign(keys, raw_manifest)


def sign_quote_text(keys: CoordinatorKeys, quote: bytes, tcb_status: str) -> bytes:
    """Return the root key's signature over ``base64(quote) + tcb_status``.

    ``quote`` is the verified quote as submitted. The text has no separator. So the function raises
    ``BadRequestError`` if a different quote and status would give the same text. Source:
    ``docs/reference/routes.md``.
    """
    if tcb_status not in _STATUSES:
        raise BrokenError("an unknown TCB status cannot be signed")
    if _is_ambiguous(len(quote), tcb_status):
        raise BadRequestError(
            "the quote's length and TCB status would make an ambiguous signature",
            fields={"sgxQuote": "ambiguous length for this TCB status"},
            hint="submit the other form of the quote (with or without the 16-byte header)",
        )
    return _sign(keys, b64encode(quote) + tcb_status.encode("ascii"))


def sign_ephemeral_key(keys: CoordinatorKeys, public_key: bytes) -> bytes:
    """Return the root key's signature over the public key that encrypts shares in a recovery.

    Signed: the context of this kind of message, then ``public_key`` (SubjectPublicKeyInfo, DER).
    """
    return _sign(keys, EPHEMERAL_CONTEXT + public_key)


def sign_recovery_index(keys: CoordinatorKeys, body: bytes) -> bytes:
    """Return the root key's signature over a recovery index.

    Signed: the context of this kind of message, then ``body``.
    """
    return _sign(keys, RECOVERY_INDEX_CONTEXT + body)


def sign_log_key(keys: CoordinatorKeys, verifier: str) -> bytes:
    """Return the root key's signature over the key of the transparency log.

    Signed: the context of this kind of message, then ``verifier``, the C2SP verifier key as text.
    """
    return _sign(keys, LOG_KEY_CONTEXT + verifier.encode())


def sign_certificate(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    algorithm: hashes.SHA256 | hashes.SHA384 | hashes.SHA512,
) -> bytes:
    """Return the certificate of ``builder`` in DER, signed with the hash ``algorithm``.

    ``key``: the key of the root or the intermediate.
    """
    certificate = builder.sign(key, algorithm, ecdsa_deterministic=True)
    return certificate.public_bytes(Encoding.DER)


def sign_marble_certificate(
    to_be_signed: bytes,
    key: ec.EllipticCurvePrivateKey,
    algorithm: hashes.SHA256 | hashes.SHA384,
) -> bytes:
    """Return the intermediate key's signature (DER) over the to-be-signed part of a certificate.

    The root's key must never sign these bytes, because the certificate library did not encode them.
    """
    return key.sign(to_be_signed, ec.ECDSA(algorithm, deterministic_signing=True))


def _sign(keys: CoordinatorKeys, message: bytes) -> bytes:
    algorithm = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
    return private_key_of(keys.root_key).sign(message, algorithm)


def _is_ambiguous(quote_length: int, status: str) -> bool:
    # Without padding at the end of the base64, the beginning of a status can also be read as base64
    # of a longer quote. The text is ambiguous if the rest is a status too and the quote grows by
    # whole groups of four.
    if quote_length % 3 != 0:
        return False
    return any(
        status != other and status.endswith(other) and (len(status) - len(other)) % 4 == 0
        for other in _STATUSES
    )
