"""Requests with a signed approval by the user's key.

The approval is bound to the manifest in force and to a verified head of the transparency log. The
root signed the log's key, the log's key signed the head, and the head continues the remembered
heads. So the approval is valid in this history alone, and proves that the user's client saw this
history.
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
from keyhouse.client.effects import Steps, work
from keyhouse.client.errors import CallRefusedError, CallUnknownError, ClientSetupError
from keyhouse.client.identity import ClientIdentity, PemIdentity, UserIdentity
from keyhouse.client.public_log import LogCheckpoint
from keyhouse.client.tokens.identity import TokenIdentity
from keyhouse.client.tokens.openssl_program import sign_on_token
from keyhouse.transparency.approval import (
    Approval,
    DecisionKind,
    SignedApproval,
    TreeHead,
    signs_approvals,
)
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import name_in_leaf
from keyhouse.transparency.sign_approval import sign_approval, signature_by
from keyhouse.wire.json_decoder import read


class Signer(NamedTuple):
    """A user's certificate (DER), and a function that signs a message with the user's key.

    ``sign`` may block, and raises ``ClientSetupError``.
    """

    certificate: bytes
    sign: Callable[[bytes], bytes]


def signer_of(user: UserIdentity | TokenIdentity | None) -> Signer | None:
    """Return the signer of ``user``, or None if the kind of key cannot sign approvals.

    The function may read files. Raises ``ClientSetupError``.
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
        raise ClientSetupError(
            "the user's certificate cannot be read", hint="pass a PEM certificate (X.509)"
        ) from None


def _sign(key: Secret, message: bytes) -> bytes:
    try:
        private = load_pem_private_key(key.reveal(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ClientSetupError(
            "the user's key cannot be read", hint="pass a PEM key without encryption"
        ) from None
    return signature_by(private, message)


T = TypeVar("T")

ATTEMPTS: Final = 3
"""Attempts to sign and send one request. Another user's decision in between ends an attempt."""

_CONFLICT: Final = 409  # HTTP status, RFC 9110


class Statement(NamedTuple):
    """A user's decision about ``sent``, the bytes of a manifest.

    ``plan`` is the digest of the plan that the user has reviewed; "" without a plan.
    """

    decision: DecisionKind
    sent: bytes
    plan: str = ""


class ApprovalInputs(NamedTuple):
    """The inputs of an approval: the user's key, and the coordinator's log and manifest."""

    root_der: bytes
    signer: Callable[[], Signer | None]  # may read files
    checkpoint: Callable[[], Steps[LogCheckpoint]]
    in_force: Callable[[], Steps[bytes]]  # the manifest


def with_approval(
    inputs: ApprovalInputs, statement: Statement, send: Callable[[bytes | None], Steps[T]]
) -> Steps[T]:
    """Sign an approval of ``statement``, and return the result of ``send`` for this approval.

    ``send`` gets None instead of an approval in three cases: the coordinator serves no log (an
    older version), the manifest in force does not name the user, or the kind of key cannot sign
    approvals. If another user's decision enters the log meanwhile, the user signs for the new head.
    """
    signer = yield from work(inputs.signer)
    view = None if signer is None else (yield from _current_view(inputs))
    if signer is None or view is None:
        return (yield from send(None))
    return (yield from _signed(inputs, statement, signer, view, send))


class _View(NamedTuple):
    """The verified checkpoint and manifest of the coordinator, for an approval."""

    checkpoint: LogCheckpoint
    manifest: bytes


def _signed(
    inputs: ApprovalInputs,
    statement: Statement,
    signer: Signer,
    view: _View,
    send: Callable[[bytes | None], Steps[T]],
) -> Steps[T]:
    attempts = 1
    while True:
        envelope = yield from work(partial(_envelope, inputs.root_der, statement, signer, view))
        try:
            return (yield from send(envelope))
        except CallRefusedError as refused:
            newer = None
            if envelope is not None and refused.http_status == _CONFLICT and attempts < ATTEMPTS:
                newer = yield from _current_view(inputs)
            same_base = newer is not None and newer.manifest == view.manifest
            if newer is None or not same_base or newer.checkpoint == view.checkpoint:
                raise
        view, attempts = newer, attempts + 1


def _current_view(inputs: ApprovalInputs) -> Steps[_View | None]:
    """Return the coordinator's newest checkpoint and manifest, or None without a log.

    Raises ``TrustError``.
    """
    try:
        checkpoint = yield from inputs.checkpoint()
    except (CallUnknownError, CallRefusedError):  # the coordinator refuses the request, too
        return None
    return _View(checkpoint, (yield from inputs.in_force()))


def _envelope(root_der: bytes, statement: Statement, signer: Signer, view: _View) -> bytes | None:
    """Return the signed approval of ``statement`` at the checkpoint and manifest of ``view``.

    None: the manifest in force does not name the signer's certificate.
    """
    user = _name_of(signer.certificate, view.manifest)
    if user is None:
        return None
    approval = Approval(
        origin=view.checkpoint.origin,
        root=_hash(root_der),
        decision=statement.decision,
        user=name_in_leaf(user),
        base=_hash(view.manifest),
        manifest=_hash(statement.sent),
        plan=statement.plan,
        head=TreeHead(view.checkpoint.size, view.checkpoint.root.hex()),
        time=time.time_ns() // 1000,
    )
    try:
        envelope = sign_approval(approval, signer.sign)
        SignedApproval.read(envelope).verify(signer.certificate)
    except LogInvalidError as invalid:
        raise ClientSetupError(
            f"the update cannot be signed: {invalid.message}",
            hint="check that the user's key belongs to the user's certificate",
        ) from None
    return envelope


class _User(msgspec.Struct, frozen=True):
    certificate: str = msgspec.field(default="", name="Certificate")


class _Users(msgspec.Struct, frozen=True):
    users: dict[str, _User] = msgspec.field(default={}, name="Users")


def _name_of(certificate: bytes, manifest: bytes) -> str | None:
    """Return the name of the user with ``certificate`` (DER) in ``manifest``, or None.

    The caller has verified the root's signature on the manifest.
    """
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
