"""Approvals: statements about an update, signed by a user.

An approval is a DSSE envelope (v1) with one signature, in canonical JSON. The payload is a JSON
object in canonical form as well. The key of the user's certificate signs ``DSSEv1 <length of type>
<type> <length of payload> <payload>``, with decimal lengths and single spaces. The algorithm is
ECDSA on P-256, P-384 or P-521 with SHA-256, in DER; RSASSA-PSS with SHA-256 and a salt of 32 bytes;
or Ed25519. No message of TLS or X.509 begins with ``DSSEv1``, so a signature has no second meaning.

An approval counts once, because its content includes the head of a former or present tree of the
log. This tree must contain the leaves of all earlier decisions: the first manifest, and each
proposal, cancellation and update. Approvals by further users are not decisions in this sense, so
several users can approve at the same time.
"""

from enum import StrEnum
from typing import Final, Literal

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from keyhouse.base.client_keys import has_costly_key
from keyhouse.base.rsa_keys import SMALLEST
from keyhouse.transparency.canonical import Hash, HashOrNone, Line, Name, Whole, read_canonical
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import require_names

APPROVAL_TYPE: Final = "application/vnd.keyhouse.approval.v1+json"
APPROVAL_BYTES: Final = 16_384
"""Maximum length in bytes of an envelope."""

SHA256: Final = hashes.SHA256()
PSS: Final = padding.PSS(padding.MGF1(SHA256), SHA256.digest_size)


class DecisionKind(StrEnum):
    """The kind of decision that a user signs."""

    PROPOSE = "propose"  # a manifest; also approves this manifest
    APPROVE = "approve"  # the pending manifest
    CANCEL = "cancel"  # the pending manifest
    PACKAGES = "packages"  # security versions of packages


class TreeHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tree of the log: its size, and its root in lower-case hex."""

    size: Whole
    root: Hash


class Approval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed content of an approval. Hashes are SHA-256 in lower-case hex."""

    origin: Line  # of the log
    root: Hash  # of the root certificate, DER
    decision: DecisionKind
    user: Name  # as written in leaves
    base: Hash  # the manifest in force
    manifest: Hash  # the proposed, approved or cancelled bytes
    plan: HashOrNone  # the digest of the plan that the user saw; empty: none
    head: TreeHead  # verified by the user's client
    time: Whole  # microseconds since 1970, as the user's client claims
    v: Literal[1] = 1


class EnvelopeSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The only signature in a DSSE envelope."""

    sig: bytes


class Envelope(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A DSSE envelope: a payload with its type and a signature."""

    payload: bytes
    payload_type: Literal["application/vnd.keyhouse.approval.v1+json"]
    signatures: tuple[EnvelopeSignature]


_PAYLOADS: Final = msgspec.json.Decoder(Approval)
_ENVELOPES: Final = msgspec.json.Decoder(Envelope)


class SignedApproval(msgspec.Struct, frozen=True):
    """A parsed approval. Its signature is not verified."""

    approval: Approval
    message: bytes  # the signed bytes
    signature: bytes

    @classmethod
    def read(cls, raw: bytes) -> "SignedApproval":
        """Return the approval in the envelope ``raw``.

        Raises ``LogInvalidError`` for any content except an approval in canonical form. The error
        repeats no part of ``raw``.
        """
        envelope = read_canonical(raw, _ENVELOPES) if len(raw) <= APPROVAL_BYTES else None
        approval = None if envelope is None else read_canonical(envelope.payload, _PAYLOADS)
        if envelope is None or approval is None:
            raise LogInvalidError(
                "an approval is not a DSSE envelope in its canonical form, with one signature and"
                " a payload that this version knows"
            )
        require_names([approval.user])
        return cls(approval, signed_message(envelope.payload), envelope.signatures[0].sig)

    def verify(self, certificate: bytes) -> None:
        """Verify the signature with the key of ``certificate`` (DER).

        Raises ``LogInvalidError`` for a signature by a different key, and for a key of a kind that
        cannot sign approvals.
        """
        key = _public_key(certificate)
        try:
            if isinstance(key, Ed25519PublicKey):
                key.verify(self.signature, self.message)
            elif isinstance(key, RSAPublicKey):
                key.verify(self.signature, self.message, PSS, SHA256)
            else:
                key.verify(self.signature, self.message, ec.ECDSA(SHA256))
        except (InvalidSignature, ValueError):
            raise LogInvalidError(
                "the signature of an approval does not verify with the user's certificate"
            ) from None


def signs_approvals(certificate: bytes) -> bool:
    """Return whether the key of ``certificate`` (DER) has a kind that can sign approvals."""
    try:
        _public_key(certificate)
    except LogInvalidError:
        return False
    return True


def signed_message(payload: bytes) -> bytes:
    """Return the signed bytes: the pre-authentication encoding of DSSE."""
    kind = APPROVAL_TYPE.encode("ascii")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _public_key(
    certificate: bytes,
) -> Ed25519PublicKey | RSAPublicKey | ec.EllipticCurvePublicKey:
    if has_costly_key(certificate):  # also true for an unreadable key
        raise unsupported_key()
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise unsupported_key() from None
    if isinstance(key, Ed25519PublicKey | ec.EllipticCurvePublicKey):
        return key
    if isinstance(key, RSAPublicKey) and key.key_size >= SMALLEST:
        return key
    raise unsupported_key()


def unsupported_key() -> LogInvalidError:
    """Return the error for a kind of key that cannot sign approvals."""
    return LogInvalidError(
        "the key of the user's certificate cannot sign approvals",
        hint="use ECDSA P-256, P-384 or P-521, RSA with 2048 to 8192 bits, or Ed25519",
    )
