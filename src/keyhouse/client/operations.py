"""Every operation on a verified coordinator, as steps for blocking and asyncio sessions.

``methods`` is generated from this module. Each public function becomes a method there, in a
blocking and an awaited form. The method has the parameters without the session, and the docstring.

An operation accepts an answer only if the state in the answer continues the memory.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from secrets import token_bytes
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from keyhouse.base.hex_repr import Readable
from keyhouse.base.printable import excerpt
from keyhouse.client import calls, recovery
from keyhouse.client.effects import Steps, work
from keyhouse.client.errors import CallRefusedError, TrustError
from keyhouse.client.exchange import Keep, OperationSession, carry, carry_and_keep
from keyhouse.client.public_log import (
    LogCheckpoint,
    cosigned_checkpoint,
    log_key as vouched_key,
    newest_checkpoint,
)
from keyhouse.client.root_signature import require_signature
from keyhouse.client.signed_approvals import ApprovalInputs, Statement, signer_of, with_approval
from keyhouse.client.trust import NONCE, Trust, TrustedCoordinator, verify_evidence, with_line
from keyhouse.transparency.approval import DecisionKind
from keyhouse.transparency.line import RootLine
from keyhouse.wire import client_api as wire
from keyhouse.wire.plan import PlanData
from keyhouse.wire.secret_types import UserSecret

_OF_PACKAGES: Final = frozenset({"packages", "config"})
_CONFLICT: Final = 409  # HTTP status, RFC 9110


class CurrentManifest(Readable, frozen=True):
    """The manifest in force. Its fingerprint and the root's signature have been verified."""

    manifest: bytes
    fingerprint: str  # SHA-256, 64 lower-case hex digits
    signature: bytes  # ECDSA by the root, ASN.1 DER


# --- the state in force ---


def status(session: OperationSession) -> Steps[wire.Status]:
    """Return the coordinator's phase."""
    return (yield from carry(session, calls.STATUS))


def attest(session: OperationSession, trust: Trust) -> Steps[TrustedCoordinator]:
    """Verify the coordinator again, with a quote over a fresh nonce and the same root.

    Call this from time to time in long sessions. Raises ``TrustError`` for a failed proof: by
    now the TCB may be outdated, too few witnesses may have seen the log, or the line may have
    a manifest that ``trust`` does not permit.
    """
    nonce = token_bytes(NONCE)
    data = yield from carry(session, calls.quoting(nonce))
    here = session.trusted  # in the handshake, the peer proved to own this root
    coordinator = yield from work(
        lambda: verify_evidence(here.address, trust, data, here.root_der, nonce, None, here.memory)
    )
    if trust.log_policy is not None:
        trust.log_policy.require((yield from witnessed_checkpoint(session)), datetime.now(UTC))
    known = yield from work(session.watch.begin)
    send = partial(carry, session) if session.has_manifest else None
    return (yield from with_line(coordinator, trust, trust.line_rules, send, known, None))


def manifest(session: OperationSession) -> Steps[CurrentManifest]:
    """Return the manifest in force, after a check of its fingerprint and signature.

    If the root has a line, the line lists the manifest as in force during the call. After an
    update, this function requests the line again. Raises ``TrustError``.
    """
    known = session.trusted.line
    data = yield from carry(session, calls.MANIFEST)
    if hashlib.sha256(data.manifest).hexdigest() != data.fingerprint:
        raise TrustError(
            "the manifest in the coordinator's answer does not have the fingerprint in this answer"
        )
    require_signature(session.trusted.root_der, data.manifest, data.signature, "the manifest")
    yield from _require_in_line(session, known, data.fingerprint)
    return CurrentManifest(data.manifest, data.fingerprint, data.signature)


def _require_in_line(
    session: OperationSession, known: RootLine | None, fingerprint: str
) -> Steps[None]:
    """Require that the line lists a manifest with this ``fingerprint`` as in force during the call.

    The root signs manifests, so a host that knows the root key can serve any manifest. The line has
    a quote of genuine code. ``known`` is the verified line from before the call; None: no manifest
    was in force then.
    """
    trusted, since = session.trusted, len(known.manifests) - 1 if known is not None else 0
    is_known = trusted.line is not None and fingerprint in trusted.line.manifests[since:]
    if trusted.trust is None or is_known:
        return
    seen, trust, send = (
        (yield from work(session.watch.begin)),
        trusted.trust,
        partial(carry, session),
    )
    newer = yield from with_line(trusted, trust, trust.line_rules, send, seen, None)
    line = newer.line
    if known is not None and (line is None or not line.continues(len(known.raw), known.last_hash)):
        raise TrustError(
            "the coordinator sent a line of the root that does not continue the verified line"
        )
    if line is not None and fingerprint not in line.manifests[since:]:
        raise TrustError(
            f"the line of the root does not show that the manifest {fingerprint} is in force",
            hint="do not use this manifest: a quote proves the line, but not the manifest",
        )
    session.trusted = newer


def verify_manifest(session: OperationSession, expected: bytes | str) -> Steps[CurrentManifest]:
    """Return the manifest in force if it is ``expected``: bytes, or a fingerprint in hex.

    Raises ``TrustError`` if a different manifest is in force.
    """
    wanted = expected if isinstance(expected, str) else hashlib.sha256(expected).hexdigest()
    current = yield from manifest(session)
    if not _same(current.fingerprint, wanted):
        raise TrustError(
            f"another manifest is in force: its fingerprint is {current.fingerprint},"
            f" must be {excerpt(wanted.lower())}",
            hint="read the manifest in force: keyhouse manifest get; and its history: keyhouse"
            " manifest log",
        )
    return current


def update_log(session: OperationSession) -> Steps[tuple[wire.LogEntry, ...]]:
    """Return the update log, oldest entry first."""
    return (yield from carry(session, calls.LOG))


def activations(session: OperationSession, start: int | None = None) -> Steps[wire.Activations]:
    """Return a page of the audit trail of activations, oldest first; for users who may update.

    ``start`` is the number of the first activation in the page. The field ``next`` of a page is
    the start of the next page. None selects the newest page.
    """
    return (yield from carry(session, calls.reading_activations(start)))


def refused_activations(session: OperationSession) -> Steps[wire.RefusedActivations]:
    """Return the refused activations and reasons, newest first; for users who may update.

    The list has the refusals of the answering process since its start. Each of several
    coordinators has its own list. Equal refusals are counted together.
    """
    return (yield from carry(session, calls.REFUSED))


def counters(session: OperationSession, start: int | None = None) -> Steps[wire.Counters]:
    """Return activation limits, and the counters of workloads; for users who may update.

    Every answer has the activation limits of all marble types, but the counters of only some
    workloads: those in the page of ``activations`` from number ``start``. None selects the
    newest page. A workload with activations in two pages is in the answers for both pages.
    """
    return (yield from carry(session, calls.reading_counters(start)))


def workloads(session: OperationSession, start: str = "") -> Steps[wire.Workloads]:
    """Return workloads that renew certificates, by page; for users who may revoke, or update.

    ``start`` is the field ``next`` of the previous page; empty selects the first page. Every
    page has all trusted marble roots.
    """
    return (yield from carry(session, calls.reading_workloads(start)))


def revocations(session: OperationSession) -> Steps[wire.Revocations]:
    """Return the revoked workloads and platforms; for users who may revoke, or update."""
    return (yield from carry(session, calls.REVOCATIONS))


def revoke(
    session: OperationSession,
    marble_type: str = "",
    uuid: str = "",
    platform: str = "",
    reason: str = "",
) -> Steps[wire.RevocationAnswer]:
    """Revoke a workload (type and UUID), a marble type, or a platform (PPID or CHIP_ID).

    ``platform`` is in hex. The coordinator refuses the revoked certificates at once. Workloads
    accept these certificates until the time ``ends`` in the answer. ``reason`` is for the
    update log. Raises ``TypeError`` if neither a marble type nor a platform is named.
    """
    if not marble_type and not platform:
        raise TypeError("revoke needs a marble type or a platform")
    scope = "platform" if platform else "workload" if uuid else "type"
    body = wire.RevocationBody(scope, marble_type, uuid, platform, reason)
    return (yield from carry(session, calls.revoking(body)))


def openapi(session: OperationSession) -> Steps[bytes]:
    """Return the description of the interface, OpenAPI 3.1 in JSON, unchanged."""
    return (yield from carry(session, calls.OPENAPI))


# --- changing the manifest ---


def set_manifest(
    session: OperationSession, manifest: bytes, keep: Keep | None = None
) -> Steps[dict[str, bytes]]:
    """Set the first manifest; return the encrypted recovery shares by key name.

    The function ``keep`` gets the shares first, because later only users with
    ``UpdateManifest`` can read the shares. Then the manifest in force is read back, and must
    equal this manifest byte for byte. A memory stores its fingerprint as the first manifest.
    """
    call = calls.setting(manifest)
    data = yield from carry_and_keep(session, call, keep, lambda data: data.shares)
    if (yield from _in_force(session)) != manifest:
        raise TrustError("the manifest in force is not the manifest that was sent")
    first = hashlib.sha256(manifest).hexdigest()
    yield from work(lambda: session.watch.remember_first(first))
    return data.shares


def plan(session: OperationSession, manifest: bytes) -> Steps[PlanData]:
    """Return the effects of the update ``manifest``; for users who may make or acknowledge it.

    The ``digest`` of the plan stays the same until the effects change. The digest binds the
    update to the plan.
    """
    data = yield from carry(session, calls.planning(manifest))
    _require_plan_of(manifest, data)
    return data


def update(
    session: OperationSession, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
) -> Steps[wire.UpdateAnswer]:
    """Upload an update, of security versions or of the whole manifest; return the progress.

    ``keep`` gets the ``recovery_secrets`` of the answer before any further step can fail. Later
    only users with ``UpdateManifest`` can read them. With a ``plan`` or its digest, the update
    is refused if the effects of the update now differ from the plan.

    The user's key signs the update, bound to a verified head of the log. Nothing is signed for
    a coordinator without a log, or with a key other than ECDSA, RSA or Ed25519.
    """
    return (yield from _agree(session, calls.UPDATE, manifest, keep, plan))


def acknowledge(
    session: OperationSession, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
) -> Steps[wire.UpdateAnswer]:
    """Agree to the pending update, equal to ``manifest`` byte for byte; return the progress.

    ``keep`` gets the ``recovery_secrets`` of the answer before any further step can fail. Later
    only users with ``UpdateManifest`` can read them. With a ``plan`` or its digest, the
    acknowledgement is refused if the effects of the update now differ from the plan. The user's
    key signs the acknowledgement as for ``update``.
    """
    return (yield from _agree(session, calls.ACKNOWLEDGE, manifest, keep, plan))


def log_key(session: OperationSession) -> Steps[wire.LogKeyData]:
    """Return the key of the transparency log, after a check of the root's signature."""
    return (yield from vouched_key(partial(carry, session), session.trusted.root_der))


def log_checkpoint(session: OperationSession) -> Steps[LogCheckpoint]:
    """Return the newest checkpoint of the transparency log, signed by the log's key.

    The checkpoint continues all remembered heads of the log; otherwise raises ``TrustError``.
    """
    before = yield from work(session.watch.begin)
    send = partial(carry, session)
    heads = session.watch.heads(before)
    return (yield from newest_checkpoint(send, session.trusted.root_der, heads))


def witnessed_checkpoint(session: OperationSession) -> Steps[LogCheckpoint]:
    """Return the newest cosigned checkpoint of the transparency log.

    The current log continues this checkpoint. Without witnesses, the result is the newest
    checkpoint.
    """
    newest = yield from log_checkpoint(session)
    send = partial(carry, session)
    return (yield from cosigned_checkpoint(send, session.trusted.root_der, newest))


def log_quote(session: OperationSession, nonce: bytes) -> Steps[wire.LogQuoteData]:
    """Return the newest cosigned checkpoint, with a quote over the checkpoint and ``nonce``.

    ``nonce`` has at least 16 bytes. This function verifies neither checkpoint nor quote. Both
    are for an evidence file, and its readers verify both.
    """
    return (yield from carry(session, calls.log_quoting(nonce)))


def log_part(session: OperationSession, path: str) -> Steps[bytes]:
    """Return a part of the transparency log, unverified: ``tile/...`` or ``object/...``.

    Compare a tile with a checkpoint, and an object with its name.
    """
    return (yield from carry(session, calls.log_part(path)))


def line(session: OperationSession) -> Steps[wire.LineData]:
    """Return the line of the root: each manifest that was in force, with its proofs.

    The result is not verified; ``trusted.line`` is the verified line.
    """
    return (yield from carry(session, calls.line_quoting(token_bytes(NONCE))))


def pending(session: OperationSession) -> Steps[wire.Pending | None]:
    """Return the update that waits for acknowledgements, or None."""
    try:
        return (yield from carry(session, calls.PENDING))
    except CallRefusedError as refused:
        if refused.reason == "not-found":
            return None
        raise


def cancel(session: OperationSession) -> Steps[None]:
    """Cancel the pending update. The user's key signs the cancellation as for ``update``."""
    waiting = None if session.user is None else (yield from pending(session))
    if waiting is None:
        return (yield from carry(session, calls.cancelling(None)))
    statement = Statement(DecisionKind.CANCEL, waiting.manifest)
    return (
        yield from with_approval(
            _approval_inputs(session),
            statement,
            lambda signed: carry(session, calls.cancelling(signed)),
        )
    )


# --- secrets, quotes, counters ---


def secrets(session: OperationSession, names: Sequence[str]) -> Steps[dict[str, wire.SecretObject]]:
    """Return the secrets with these names, all or none: ``secrets(["greeting"])``.

    Raises ``TypeError`` for a single string, because each letter would count as a name.
    """
    if isinstance(names, str):
        raise TypeError(f"the names must be a list: secrets([{excerpt(names)!r}])")
    requested = tuple(names)
    values = yield from carry(session, calls.reading_secrets(requested))
    if set(values) != set(requested):
        raise TrustError("the coordinator's answer does not have exactly the requested secrets")
    return values


def write_secrets(session: OperationSession, secrets: Mapping[str, UserSecret]) -> Steps[None]:
    """Set user-defined secrets, all or none."""
    yield from carry(session, calls.writing_secrets(secrets))


def sign_quote(session: OperationSession, quote: bytes) -> Steps[wire.SignedQuote]:
    """Return the root key's signature over any ``quote`` that the coordinator could verify.

    The signature has been checked: ECDSA, SHA-256 over ``base64(quote)`` and the TCB status.
    """
    signed = yield from carry(session, calls.signing(quote))
    text = base64.b64encode(quote) + signed.tcb_status.encode()
    require_signature(session.trusted.root_der, text, signed.signature, "the quote")
    return signed


def raise_counter(session: OperationSession, name: str, value: int) -> Steps[int]:
    """Raise the counter ``name`` to ``value`` if it is lower; return the counter's old value.

    Only workloads may call this. The user of the session is the certificate of an activated
    workload.
    """
    return (yield from carry(session, calls.counting(name, value)))


# --- recovery ---


def recovery_offer(session: OperationSession) -> Steps[wire.Offer]:
    """Return the key for encrypting shares, signed by the pinned root, and the recovery index.

    Check the offer with ``require_root`` and ``require_listed`` before you send anything.
    """
    offer = yield from carry(session, calls.OFFER)
    recovery.require_offer(offer, session.trusted.root_der)
    return offer


def recover(
    session: OperationSession, encrypted_share: bytes, signature: bytes
) -> Steps[wire.Progress]:
    """Submit a share and its signature; return the number of shares that are still missing.

    ``encrypted_share`` is encrypted to the key of ``recovery_offer``. ``signature`` is the
    holder's signature over the share before this encryption.
    """
    return (yield from carry(session, calls.submitting_share(encrypted_share, signature)))


def recover_with(
    session: OperationSession, key: recovery.RecoveryKey, encrypted_share: bytes, kept_root: bytes
) -> Steps[wire.Progress]:
    """Decrypt the holder's share with ``key``, and submit the share for the recovery.

    ``kept_root`` is the root certificate (DER) of the deployment, in the holder's copy. If the
    state to be recovered has another root, raises ``TrustError`` before any decryption or
    upload.
    """
    offer = yield from recovery_offer(session)
    recovery.require_root(offer, kept_root)
    recovery.require_listed(offer, key.public_key)
    share = yield from work(lambda: key.decrypt(encrypted_share))
    signature = yield from work(lambda: key.sign(share))
    recovery.require_signed(offer, share, signature)
    encrypted = recovery.encrypt_share(offer.ephemeral_public_key, share)
    return (yield from recover(session, encrypted, signature))


def recovery_secrets(session: OperationSession) -> Steps[dict[str, bytes]]:
    """Return the encrypted recovery shares by key name; for users who may update."""
    return (yield from carry(session, calls.RECOVERY_SECRETS))


def _in_force(session: OperationSession) -> Steps[bytes]:
    return (yield from manifest(session)).manifest


def _same(digest: str, candidate: str) -> bool:
    """Return whether ``candidate``, in any case, equals ``digest``, which is in lower case."""
    one, other = (text.encode("utf-8", "surrogatepass") for text in (digest, candidate.lower()))
    return hmac.compare_digest(one, other)


def _require_plan_of(manifest: bytes, data: PlanData) -> None:
    if data.plan.manifest != hashlib.sha256(manifest).hexdigest():
        raise TrustError(
            f"the plan is for the manifest {excerpt(data.plan.manifest)}, not for the sent"
            " manifest",
            hint="request the plan for this manifest again, and review it",
        )


def _bound(session: OperationSession, manifest: bytes, expected: PlanData | str) -> Steps[str]:
    """Return the digest of the reviewed plan, which binds the update to the effects in the plan.

    ``expected`` is the plan, its digest, or "" without a review. Raises ``TrustError`` for the plan
    of a different manifest. For a digest, raises ``CallRefusedError`` if the plan has changed since
    the review.
    """
    if isinstance(expected, PlanData):
        _require_plan_of(manifest, expected)
        return expected.digest
    if not expected:
        return ""
    current = yield from plan(session, manifest)
    if not _same(current.digest, expected):
        raise CallRefusedError(
            _CONFLICT,
            f"the plan has changed since the review: its digest is now {excerpt(current.digest)}",
            hint="review the new plan",
        )
    return current.digest


def _agree(
    session: OperationSession,
    path: str,
    manifest: bytes,
    keep: Keep | None,
    expected: PlanData | str,
) -> Steps[wire.UpdateAnswer]:
    digest = yield from _bound(session, manifest, expected)
    decision = DecisionKind.APPROVE if path == calls.ACKNOWLEDGE else _proposal(manifest)

    def send(signed: bytes | None) -> Steps[wire.UpdateAnswer]:
        call = calls.agreeing(path, manifest, digest, signed)
        outcome = yield from carry_and_keep(
            session, call, keep, lambda answer: answer.recovery_secrets
        )
        return replace(outcome, signed=signed is not None)

    return (
        yield from with_approval(
            _approval_inputs(session), Statement(decision, manifest, digest), send
        )
    )


def _approval_inputs(session: OperationSession) -> ApprovalInputs:
    return ApprovalInputs(
        session.trusted.root_der,
        partial(signer_of, session.user),
        partial(log_checkpoint, session),
        partial(_in_force, session),
    )


def _proposal(manifest: bytes) -> DecisionKind:
    """Return the decision in an upload of ``manifest``.

    A manifest of packages alone raises security versions. Any other manifest is a full update, also
    a manifest that cannot be decoded: the coordinator explains its errors.
    """
    try:
        sections = msgspec.json.decode(manifest, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return DecisionKind.PROPOSE  # the coordinator explains the error
    full = any(value for name, value in sections.items() if name.lower() not in _OF_PACKAGES)
    return DecisionKind.PROPOSE if full else DecisionKind.PACKAGES
