"""Requests with a signed approval: what a user's key signs before it is sent.

The approval is bound to the manifest in force and to a head of the transparency log that has been
verified: the root signed the log's key, this key the head, and it continues what is remembered. So
it counts in this history alone, and the user is a witness of it.
"""

import hashlib
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from keyhouse.base.secret import Secret
from keyhouse.client.errors import CallRefusedError, CallUnknownError, ClientSetupError
from keyhouse.client.identity import ClientIdentity, PemIdentity, UserIdentity
from keyhouse.client.public_log import LogCheckpoint
from keyhouse.client.steps import Steps, work
from keyhouse.client.tokens.identity import TokenIdentity
from keyhouse.client.tokens.openssl_program import sign_on_token
from keyhouse.transparency.approval import Approval, Decision, Head, SignedApproval, signs_approvals
from keyhouse.transparency.approving import sign_approval, signature_by
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import name_in_leaf
from keyhouse.wire.json_decoder import read


class Signer(NamedTuple):
    """A user's certificate (DER), and what returns its key's signature over a message.

    ``sign`` may block, and raises ``ClientSetupError``.
    """

    certificate: bytes
    sign: Callable[[bytes], bytes]


def signer_of(user: UserIdentity | TokenIdentity | None) -> Signer | None:
    """Return how ``user`` signs; None if the key is of a kind that signs no approvals.

    It may read files. Raises ``ClientSetupError``.
    """
    if isinstance(user, ClientIdentity):
        user = user.read()
    if isinstance(user, TokenIdentity):
        certificate = _der(user.certificate)
        sign = partial(sign_on_token, user, certificate)
    elif isinstance(user, PemIdentity):
        certificate = _der(user.certificate)
        sign = partial(_sign, user.key)
    else:
        return None
    return Signer(certificate, sign) if signs_approvals(certificate) else None


def _der(pem: bytes) -> bytes:
    try:
        return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    except (ValueError, x509.InvalidVersion):
        raise ClientSetupError("the user's certificate cannot be read") from None


def _sign(key: Secret, message: bytes) -> bytes:
    try:
        private = load_pem_private_key(key.reveal(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ClientSetupError("the user's key cannot be read") from None
    return signature_by(private, message)


T = TypeVar("T")

LOOKS: Final = 3
"""How often a request is signed and sent, while others decide something in between."""

_CONFLICT: Final = 409


class Statement(NamedTuple):
    """What is decided, about which bytes, and the digest of the plan that was seen, if any."""

    decision: Decision
    sent: bytes
    plan: str = ""


class Desk(NamedTuple):
    """What approvals are signed with: the user's key, and what the coordinator shows."""

    root_der: bytes
    signer: Callable[[], Signer | None]  # may read files
    checkpoint: Callable[[], Steps[LogCheckpoint]]
    in_force: Callable[[], Steps[bytes]]  # the manifest


def with_approval(
    desk: Desk, statement: Statement, send: Callable[[bytes | None], Steps[T]]
) -> Steps[T]:
    """Return what ``send`` returns, which is given the signed approval.

    It is given None, and nothing is signed, if the coordinator shows no log (an older version has
    none), if the manifest in force does not name the user, or for a kind of key that signs no
    approvals. While others decide something, it is signed again.
    """
    signer = yield from work(desk.signer)
    found = None if signer is None else (yield from _look(desk))
    if signer is None or found is None:
        return (yield from send(None))
    return (yield from _signed(desk, statement, signer, found, send))


class _Seen(NamedTuple):
    """What the coordinator has shown, verified."""

    checkpoint: LogCheckpoint
    manifest: bytes


def _signed(
    desk: Desk,
    statement: Statement,
    signer: Signer,
    seen: _Seen,
    send: Callable[[bytes | None], Steps[T]],
) -> Steps[T]:
    looks = 1
    while True:
        envelope = yield from work(partial(_envelope, desk.root_der, statement, signer, seen))
        try:
            return (yield from send(envelope))
        except CallRefusedError as refused:
            again = None
            if envelope is not None and refused.http_status == _CONFLICT and looks < LOOKS:
                again = yield from _look(desk)
            same_base = again is not None and again.manifest == seen.manifest
            if again is None or not same_base or again.checkpoint == seen.checkpoint:
                raise
        seen, looks = again, looks + 1


def _look(desk: Desk) -> Steps[_Seen | None]:
    """Return what the coordinator shows now; None: it shows no log. Raises ``TrustError``."""
    try:
        checkpoint = yield from desk.checkpoint()
    except (CallUnknownError, CallRefusedError):  # the request itself is refused likewise
        return None
    return _Seen(checkpoint, (yield from desk.in_force()))


def _envelope(root_der: bytes, statement: Statement, signer: Signer, seen: _Seen) -> bytes | None:
    """Return the signed approval; None if the manifest in force does not name the signer."""
    user = _name_of(signer.certificate, seen.manifest)
    if user is None:
        return None
    approval = Approval(
        origin=seen.checkpoint.origin,
        root=_hash(root_der),
        decision=statement.decision,
        user=name_in_leaf(user),
        base=_hash(seen.manifest),
        manifest=_hash(statement.sent),
        plan=statement.plan,
        head=Head(seen.checkpoint.size, seen.checkpoint.root.hex()),
        time=time.time_ns() // 1000,
    )
    try:
        envelope = sign_approval(approval, signer.sign)
        SignedApproval.read(envelope).verify(signer.certificate)
    except LogInvalidError as invalid:
        raise ClientSetupError(
            f"the update cannot be signed: {invalid.message}",
            hint="check that the user's key is the one of the user's certificate",
        ) from None
    return envelope


class _User(msgspec.Struct, frozen=True):
    certificate: str = msgspec.field(default="", name="Certificate")


class _Users(msgspec.Struct, frozen=True):
    users: dict[str, _User] = msgspec.field(default={}, name="Users")


def _name_of(certificate: bytes, manifest: bytes) -> str | None:
    """Return whose ``certificate`` (DER) it is in ``manifest``, which the root has signed."""
    users = read(manifest, _Users).value.users
    return next((name for name, one in users.items() if _listed(one) == certificate), None)


def _listed(user: _User) -> bytes:
    try:
        certificate = x509.load_pem_x509_certificate(user.certificate.encode())
    except (ValueError, x509.InvalidVersion):
        return b""
    return certificate.public_bytes(Encoding.DER)


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
