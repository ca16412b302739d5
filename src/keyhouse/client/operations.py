"""Every operation on a verified coordinator, as steps: written once, for both kinds of session.

``methods`` is generated from it: each function is a method there, blocking and awaited, with its
parameters, but the session, and its docstring.

An answer is accepted only if the state that came with it continues what is remembered.
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

from keyhouse.base.printable import shown
from keyhouse.base.readable import Readable
from keyhouse.client import calls, recovery
from keyhouse.client.approving import Desk, Statement, signer_of, with_approval
from keyhouse.client.errors import CallRefusedError, TrustError
from keyhouse.client.exchange import Keep, Session, carry, carry_and_keep
from keyhouse.client.public_log import (
    LogCheckpoint,
    cosigned_checkpoint,
    log_key as vouched_key,
    newest_checkpoint,
)
from keyhouse.client.root_signature import require_signature
from keyhouse.client.steps import Steps, work
from keyhouse.client.trust import NONCE, Trust, TrustedCoordinator, proven, with_line
from keyhouse.transparency.approval import Decision
from keyhouse.transparency.line import RootLine
from keyhouse.wire import client_api as wire
from keyhouse.wire.plan import PlanData
from keyhouse.wire.secret_types import UserSecret

_OF_PACKAGES: Final = frozenset({"packages", "config"})
_CONFLICT: Final = 409


class CurrentManifest(Readable, frozen=True):
    """The manifest in force. Fingerprint and the root's signature have been checked."""

    manifest: bytes
    fingerprint: str  # SHA-256, 64 lower-case hex digits
    signature: bytes  # ECDSA by the root, ASN.1 DER


# --- reading what is in force ---


def status(session: Session) -> Steps[wire.Status]:
    """Return the coordinator's phase."""
    return (yield from carry(session, calls.STATUS))


def attest(session: Session, trust: Trust) -> Steps[TrustedCoordinator]:
    """Return the coordinator as a quote over a fresh nonce proves it now, under the same root.

    Raises ``TrustError`` if it does not: its TCB may be outdated since it was verified, its
    witnesses may not have seen its log since, or its line may not be what ``trust`` demands.
    """
    nonce = token_bytes(NONCE)
    data = yield from carry(session, calls.quoting(nonce))
    here = session.trusted  # the handshake has shown that the peer owns this root
    found = yield from work(
        lambda: proven(here.address, trust, data, here.root_der, nonce, None, here.memory)
    )
    if trust.log_policy is not None:
        trust.log_policy.require((yield from witnessed_checkpoint(session)), datetime.now(UTC))
    known = yield from work(session.watch.begin)
    ask = partial(carry, session) if session.has_manifest else None
    return (yield from with_line(found, trust, trust.line_rules, ask, known, None))


def manifest(session: Session) -> Steps[CurrentManifest]:
    """Return the manifest in force; its fingerprint and signature are checked.

    It is the last one in the line of the root, if there is a line. After an update the line is
    read again. Raises ``TrustError``.
    """
    known = session.trusted.line
    data = yield from carry(session, calls.MANIFEST)
    if hashlib.sha256(data.manifest).hexdigest() != data.fingerprint:
        raise TrustError("the manifest does not have the fingerprint that came with it")
    require_signature(session.trusted.root_der, data.manifest, data.signature, "the manifest")
    yield from _require_in_line(session, known, data.fingerprint)
    return CurrentManifest(data.manifest, data.fingerprint, data.signature)


def _require_in_line(session: Session, known: RootLine | None, fingerprint: str) -> Steps[None]:
    """Require that the manifest was in force when it was answered, as the line shows.

    ``known``: the line of before the answer; None: no manifest was in force. The root signs
    manifests, so a host that knows the root key can answer any manifest. The line has a quote of
    genuine code.
    """
    trusted, since = session.trusted, len(known.manifests) - 1 if known is not None else 0
    is_known = trusted.line is not None and fingerprint in trusted.line.manifests[since:]
    if trusted.trust is None or is_known:
        return
    seen, trust, ask = (
        (yield from work(session.watch.begin)),
        trusted.trust,
        partial(carry, session),
    )
    newer = yield from with_line(trusted, trust, trust.line_rules, ask, seen, None)
    line = newer.line
    if known is not None and (line is None or not line.continues(len(known.raw), known.last_hash)):
        raise TrustError("the line of the root does not continue the one that was verified before")
    if line is not None and fingerprint not in line.manifests[since:]:
        raise TrustError(
            f"the manifest {fingerprint} is not the last one in the line of the root",
            hint="do not use it: the line has a quote of genuine code, the manifest has none",
        )
    session.trusted = newer


def verify_manifest(session: Session, expected: bytes | str) -> Steps[CurrentManifest]:
    """Return the manifest in force if it is ``expected``: its bytes, or its fingerprint in hex.

    Raises ``TrustError`` if another is in force.
    """
    wanted = expected if isinstance(expected, str) else hashlib.sha256(expected).hexdigest()
    found = yield from manifest(session)
    if not _same(found.fingerprint, wanted):
        raise TrustError(
            f"another manifest is in force: its fingerprint is {found.fingerprint},"
            f" must be {shown(wanted.lower())}",
            hint="keyhouse manifest get shows it, keyhouse manifest log how it came to be",
        )
    return found


def update_log(session: Session) -> Steps[tuple[wire.LogEntry, ...]]:
    """Return the update log, oldest entry first."""
    return (yield from carry(session, calls.LOG))


def activations(session: Session, start: int | None = None) -> Steps[wire.Activations]:
    """Return a page of the audit trail of activations, oldest first; for users who may update.

    ``start``: number of the first; the ``next`` of one page begins the following. None: the
    newest.
    """
    return (yield from carry(session, calls.reading_activations(start)))


def refused_activations(session: Session) -> Steps[wire.RefusedActivations]:
    """Return which activations were refused, and why, newest first; for users who may update.

    They are those that the process that answers has refused since it began: with several
    coordinators, each knows its own. Equal ones are counted.
    """
    return (yield from carry(session, calls.REFUSED))


def counters(session: Session, start: int | None = None) -> Steps[wire.Counters]:
    """Return limits and counters of workloads in a page of the trail; for users who may update.

    All limits of activations are in every page. ``start`` is as for ``activations``; a workload
    that is in two pages is answered in both.
    """
    return (yield from carry(session, calls.reading_counters(start)))


def openapi(session: Session) -> Steps[bytes]:
    """Return the description of the interface, OpenAPI 3.1 in JSON, as it came."""
    return (yield from carry(session, calls.OPENAPI))


# --- changing the manifest ---


def set_manifest(
    session: Session, manifest: bytes, keep: Keep | None = None
) -> Steps[dict[str, bytes]]:
    """Set the first manifest; return the encrypted recovery shares by key name.

    Afterwards the manifest in force has been read back and is this one, byte for byte. A memory
    has its fingerprint as that of the first manifest. The shares are given again only to users
    with ``UpdateManifest``, so ``keep`` gets them first.
    """
    call = calls.setting(manifest)
    data = yield from carry_and_keep(session, call, keep, lambda data: data.shares)
    if (yield from _in_force(session)) != manifest:
        raise TrustError("another manifest is in force than the one that was set")
    first = hashlib.sha256(manifest).hexdigest()
    yield from work(lambda: session.watch.remember_first(first))
    return data.shares


def plan(session: Session, manifest: bytes) -> Steps[PlanData]:
    """Return what the update ``manifest`` would do; for users who may make or acknowledge it.

    Its ``digest`` stays the same until something else would happen, and binds the update to it.
    """
    found = yield from carry(session, calls.planning(manifest))
    _require_plan_of(manifest, found)
    return found


def update(
    session: Session, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
) -> Steps[wire.UpdateAnswer]:
    """Upload an update, of security versions or of the whole manifest; return how far it is.

    ``keep`` gets the ``recovery_secrets`` of the answer before anything else can fail: later
    only a user with ``UpdateManifest`` is given them again. With a ``plan``, or its digest, it
    is refused if by now something else would happen.

    The user's key signs it, bound to a head of the log that has been verified; not for a
    coordinator without a log, nor with a key that is not ECDSA, RSA or Ed25519.
    """
    return (yield from _agree(session, calls.UPDATE, manifest, keep, plan))


def acknowledge(
    session: Session, manifest: bytes, keep: Keep | None = None, plan: PlanData | str = ""
) -> Steps[wire.UpdateAnswer]:
    """Agree to the pending update, which is ``manifest`` byte for byte; return how far it is.

    ``keep`` gets the ``recovery_secrets`` of the answer before anything else can fail: later
    only a user with ``UpdateManifest`` is given them again. With a ``plan``, or its digest, it
    is refused if by now something else would happen. It is signed as ``update`` is.
    """
    return (yield from _agree(session, calls.ACKNOWLEDGE, manifest, keep, plan))


def log_key(session: Session) -> Steps[wire.LogKeyData]:
    """Return the key of the transparency log. The root's signature over it has been checked."""
    return (yield from vouched_key(partial(carry, session), session.trusted.root_der))


def log_checkpoint(session: Session) -> Steps[LogCheckpoint]:
    """Return the newest checkpoint of the transparency log, which its key has signed.

    It continues all that is remembered of the log: raises ``TrustError`` if it does not.
    """
    before = yield from work(session.watch.begin)
    ask = partial(carry, session)
    heads = session.watch.heads(before)
    return (yield from newest_checkpoint(ask, session.trusted.root_der, heads))


def witnessed_checkpoint(session: Session) -> Steps[LogCheckpoint]:
    """Return the newest checkpoint of the transparency log that witnesses have cosigned.

    It is part of the log as it is now. Without witnesses it is the newest one.
    """
    newest = yield from log_checkpoint(session)
    ask = partial(carry, session)
    return (yield from cosigned_checkpoint(ask, session.trusted.root_der, newest))


def log_quote(session: Session, nonce: bytes) -> Steps[wire.LogQuoteData]:
    """Return the newest checkpoint that witnesses have cosigned, with a quote over it.

    The quote is over ``nonce`` as well, of 16 bytes at least. Neither is verified here, as they
    are for evidence files.
    """
    return (yield from carry(session, calls.log_quoting(nonce)))


def log_part(session: Session, path: str) -> Steps[bytes]:
    """Return a part of the transparency log as it came: ``tile/...`` or ``object/...``.

    It is not verified: compare it with a checkpoint, or with its name.
    """
    return (yield from carry(session, calls.log_part(path)))


def line(session: Session) -> Steps[wire.LineData]:
    """Return the line of the root: each manifest that was in force, and what proves its entry.

    Its quote is not verified here: ``trusted.line`` is the line that was verified.
    """
    return (yield from carry(session, calls.line_quoting(token_bytes(NONCE))))


def pending(session: Session) -> Steps[wire.Pending | None]:
    """Return the update that waits for acknowledgements, or None."""
    try:
        return (yield from carry(session, calls.PENDING))
    except CallRefusedError as refused:
        if refused.reason == "not-found":
            return None
        raise


def cancel(session: Session) -> Steps[None]:
    """Cancel the pending update. It is signed by the user's key, as an update is."""
    waiting = None if session.user is None else (yield from pending(session))
    if waiting is None:
        return (yield from carry(session, calls.cancelling(None)))
    statement = Statement(Decision.CANCEL, waiting.manifest)
    return (
        yield from with_approval(
            _desk(session), statement, lambda signed: carry(session, calls.cancelling(signed))
        )
    )


# --- secrets, quotes, counters ---


def secrets(session: Session, names: Sequence[str]) -> Steps[dict[str, wire.SecretObject]]:
    """Return the secrets of these names, all or none: ``secrets(["greeting"])``.

    Raises ``TypeError`` for a single string, whose letters would be read as names.
    """
    if isinstance(names, str):
        raise TypeError(f"the names of secrets are a list: secrets([{shown(names)!r}])")
    asked = tuple(names)
    found = yield from carry(session, calls.reading_secrets(asked))
    if set(found) != set(asked):
        raise TrustError("the answer has other secrets than those that were asked for")
    return found


def write_secrets(session: Session, secrets: Mapping[str, UserSecret]) -> Steps[None]:
    """Set user-defined secrets, all or none."""
    yield from carry(session, calls.writing_secrets(secrets))


def sign_quote(session: Session, quote: bytes) -> Steps[wire.SignedQuote]:
    """Return the root key's signature over any ``quote`` that the coordinator could verify.

    The signature has been checked: ECDSA, SHA-256 over ``base64(quote)`` and the TCB status.
    """
    signed = yield from carry(session, calls.signing(quote))
    text = base64.b64encode(quote) + signed.tcb_status.encode()
    require_signature(session.trusted.root_der, text, signed.signature, "the quote")
    return signed


def raise_counter(session: Session, name: str, value: int) -> Steps[int]:
    """Raise the counter ``name`` to ``value`` if it is lower; return what it was before.

    For marbles: the identity is the certificate of an activated workload.
    """
    return (yield from carry(session, calls.counting(name, value)))


# --- recovery ---


def recovery_offer(session: Session) -> Steps[wire.Offer]:
    """Return the key to encrypt recovery shares to, signed by the pinned root; and whose.

    Check it with ``require_root`` and ``require_listed`` before anything is sent.
    """
    offer = yield from carry(session, calls.OFFER)
    recovery.require_offer(offer, session.trusted.root_der)
    return offer


def recover(session: Session, encrypted_share: bytes, signature: bytes) -> Steps[wire.Progress]:
    """Submit a share, encrypted to the key of ``recovery_offer``, with its signature."""
    return (yield from carry(session, calls.handing_in(encrypted_share, signature)))


def recover_with(
    session: Session, key: recovery.RecoveryKey, encrypted_share: bytes, kept_root: bytes
) -> Steps[wire.Progress]:
    """Decrypt the holder's share with ``key``; submit it, if the deployment is the kept one.

    ``kept_root``: the root certificate (DER) that the holder kept. Raises ``TrustError`` before
    anything is decrypted or sent if the state is of another deployment.
    """
    offer = yield from recovery_offer(session)
    recovery.require_root(offer, kept_root)
    recovery.require_listed(offer, key.public_key)
    share = yield from work(lambda: key.decrypt(encrypted_share))
    signature = yield from work(lambda: key.sign(share))
    recovery.require_signed(offer, share, signature)
    encrypted = recovery.encrypt_share(offer.ephemeral_public_key, share)
    return (yield from recover(session, encrypted, signature))


def recovery_secrets(session: Session) -> Steps[dict[str, bytes]]:
    """Return the encrypted recovery shares by key name; for users who may update."""
    return (yield from carry(session, calls.RECOVERY_SECRETS))


def _in_force(session: Session) -> Steps[bytes]:
    return (yield from manifest(session)).manifest


def _same(digest: str, given: str) -> bool:
    """Tell whether ``given``, in any case, is ``digest``, which is in lower case."""
    one, other = (text.encode("utf-8", "surrogatepass") for text in (digest, given.lower()))
    return hmac.compare_digest(one, other)


def _require_plan_of(manifest: bytes, found: PlanData) -> None:
    if found.plan.manifest != hashlib.sha256(manifest).hexdigest():
        raise TrustError("the plan is one of another manifest")


def _bound(session: Session, manifest: bytes, expected: PlanData | str) -> Steps[str]:
    """Return the digest to send. The coordinator checks it, as it has answered with a plan."""
    if isinstance(expected, PlanData):
        _require_plan_of(manifest, expected)
        return expected.digest
    if not expected:
        return ""
    found = yield from plan(session, manifest)
    if not _same(found.digest, expected):
        raise CallRefusedError(
            _CONFLICT,
            f"the plan has changed since the review: its digest is now {shown(found.digest)}",
        )
    return found.digest


def _agree(
    session: Session,
    path: str,
    manifest: bytes,
    keep: Keep | None,
    expected: PlanData | str,
) -> Steps[wire.UpdateAnswer]:
    digest = yield from _bound(session, manifest, expected)
    decision = Decision.APPROVE if path == calls.ACKNOWLEDGE else _proposal(manifest)

    def send(signed: bytes | None) -> Steps[wire.UpdateAnswer]:
        call = calls.agreeing(path, manifest, digest, signed)
        found = yield from carry_and_keep(
            session, call, keep, lambda answer: answer.recovery_secrets
        )
        return replace(found, signed=signed is not None)

    return (yield from with_approval(_desk(session), Statement(decision, manifest, digest), send))


def _desk(session: Session) -> Desk:
    return Desk(
        session.trusted.root_der,
        partial(signer_of, session.user),
        partial(log_checkpoint, session),
        partial(_in_force, session),
    )


def _proposal(manifest: bytes) -> Decision:
    """Return what uploading ``manifest`` is: one that has packages alone raises versions."""
    try:
        sections = msgspec.json.decode(manifest, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Decision.PROPOSE  # the coordinator says what is wrong with it
    full = any(value for name, value in sections.items() if name.lower() not in _OF_PACKAGES)
    return Decision.PROPOSE if full else Decision.PACKAGES
