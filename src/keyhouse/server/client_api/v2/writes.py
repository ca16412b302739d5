"""What the Client API changes. Of what version 1 has, too, a row of the table says the shapes."""

import re
from asyncio import Future
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from keyhouse.attestation import QuoteRefusedError
from keyhouse.base.errors import BadRequestError, InvalidError, Problem
from keyhouse.coordinator import Decision, StaleError, UploadSecrets
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.bodies import still_needed, warnings_message
from keyhouse.server.client_api.routes import INLINE, user_of
from keyhouse.server.http.body import DECODED_BYTES, read_body, require_size
from keyhouse.server.http.exchange import Answer, Head, Later
from keyhouse.server.services.feature_gates import Counters, QuoteSigning
from keyhouse.server.services.first_manifest import FirstManifest
from keyhouse.server.services.preparation import Preparation
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.server.services.updates import Agreement, Proposal, Updates
from keyhouse.server.services.user_secrets import SecretWrites
from keyhouse.wire.client_api import (
    AcknowledgedData,
    CancelBody,
    CounterBody,
    CounterData,
    ManifestBody,
    MessageData,
    SecretsBody,
    SetManifestData,
    SignedQuote,
    SignQuoteBody,
    UpdateAnswer,
    UpdateBody,
)
from keyhouse.wire.secret_types import UserSecret
from keyhouse.wire.sent import LEFT_OUT

CANCELLED: Final = "the pending update is cancelled"

_NOT_WITNESSED: Final = "no quorum of the witnesses has cosigned this yet: a host can roll it back"


def updated(answers: Answers, agreement: Agreement) -> Answer:
    """Return the answer to an update that was initiated, or applied at once."""
    notes = "; ".join((*agreement.notes, *unwitnessed(agreement)))
    data = _data(UpdateAnswer, agreement, LEFT_OUT)
    return answers.success(data, agreement.view, notes)


def acknowledged(answers: Answers, agreement: Agreement) -> Answer:
    """Return the answer to an acknowledgement.

    Clients read the first word of its message: ``All``, or a number.
    """
    said = ["All necessary users have agreed: the update is applied", *agreement.notes]
    if agreement.missing:
        said = [still_needed(agreement.missing)]
    message = "; ".join((*said, *unwitnessed(agreement)))
    return answers.success(_data(AcknowledgedData, agreement, message), agreement.view)


def unwitnessed(agreement: Agreement) -> tuple[str, ...]:
    """Return what to say of a change that no quorum of the witnesses knows yet, if that is so."""
    return (_NOT_WITNESSED,) if agreement.witnessed is False else ()


def _data(kind: type[UpdateAnswer], agreement: Agreement, message: str) -> UpdateAnswer:
    return kind(
        message=message,
        signed=LEFT_OUT,
        missing_acknowledgments=agreement.missing,
        missing_users=agreement.missing_users,
        recovery_secrets=agreement.recovery_secrets or LEFT_OUT,
        witnessed=LEFT_OUT if agreement.witnessed is None else agreement.witnessed,
    )


LONGEST_NAME: Final = 256
"""Bytes of a counter's name in UTF-8; it may be empty."""

Uploads = Mapping[str, UserSecret]
Prepare = Callable[[], UploadSecrets]

_QUOTE: Final = "sgxQuote"
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_MANIFEST_HINT: Final = 'send {"manifest": its JSON text in base64}'


async def set_manifest(
    first_manifest: FirstManifest, answers: Answers, head: Head, body: bytes
) -> Answer:
    """Enforce the first manifest; answer the recovery secrets for the holders of the keys."""
    del head
    enforced = await first_manifest.set(lambda: _manifest(body))
    data = SetManifestData(enforced.recovery_secrets, enforced.recovery_secrets)
    return answers.success(data, enforced.view, warnings_message(enforced.warnings))


def write_secrets(
    read: Callable[[bytes], Uploads],
    within: str,
    secrets: SecretWrites,
    answers: Answers,
    head: Head,
    body: bytes,
) -> Awaitable[Answer]:
    """Store what a user uploads: all of it or nothing. ``within``: what findings call the place.

    A small one is read and checked here, a large one in a thread, and so is one that has to be
    checked again because the state has changed. Raises what refuses a small one.
    """
    prepare = partial(secrets.prepared, head.identity, partial(_bounded, read, body), within)
    if len(body) > INLINE:
        return _written(secrets, answers, prepare)
    return Later(secrets.submitted(prepare()), partial(_concluded, secrets, answers, prepare))


def _concluded(
    secrets: SecretWrites, answers: Answers, prepare: Prepare, done: Future[Decision]
) -> Answer | Awaitable[Answer]:
    try:
        return answers.success(None, done.result().view)
    except StaleError:
        return _written(secrets, answers, prepare)


async def _written(secrets: SecretWrites, answers: Answers, prepare: Prepare) -> Answer:
    return answers.success(None, await secrets.write(prepare))


async def plan_update(
    updates: Updates, preparation: Preparation, answers: Answers, head: Head, body: bytes
) -> Answer:
    """Tell what an update would do, with a digest that it can be bound to. Changes nothing."""
    plan, view = await updates.plan(head.identity, lambda: _manifest(body))
    return answers.encoded(await preparation.off_loop(lambda: msgspec.json.encode(plan)), view)


async def update_manifest(
    read: Callable[[bytes], Proposal], updates: Updates, answers: Answers, head: Head, body: bytes
) -> Answer:
    """Raise security versions of packages, or initiate a full update."""
    agreement = await updates.propose(head.identity, lambda: read(body))
    return updated(answers, agreement)


async def acknowledge_update(
    read: Callable[[bytes], Proposal], updates: Updates, answers: Answers, head: Head, body: bytes
) -> Answer:
    """Agree to the pending manifest."""
    agreement = await updates.acknowledge(head.identity, lambda: read(body))
    return acknowledged(answers, agreement)


async def cancel_update(
    read: Callable[[bytes], bytes | None],
    data: MessageData | str,
    updates: Updates,
    answers: Answers,
    head: Head,
    body: bytes,
) -> Answer:
    """Give the pending manifest up; answer ``data``. ``read`` returns the approval in a body."""
    agreement = await updates.cancel(user_of(head), lambda: read(body))
    return answers.success(data, agreement.view, "; ".join(unwitnessed(agreement)))


async def sign_quote(
    checks: QuoteChecks, signing: QuoteSigning, answers: Answers, head: Head, body: bytes
) -> Answer:
    """Answer the quote's TCB status, and the root key's signature over quote and status.

    Source: Client API, "sign-quote".
    """
    del head
    quote = _quote(body) if len(body) <= INLINE else await checks.in_turn(lambda: _quote(body))
    try:
        status, signature, view = await signing.sign(quote)
    except QuoteRefusedError as refused:
        raise BadRequestError(
            "the quote is not signed", fields={_QUOTE: refused.message}, hint=refused.hint
        ) from None
    data = SignedQuote(tcb_status=status, signature=signature, verification_signature=signature)
    return answers.success(data, view)


async def raise_counter(counters: Counters, answers: Answers, head: Head, body: bytes) -> Answer:
    """Raise a counter of the calling workload, if it is lower; answer its value before.

    Source: wire reference, "Monotonic counters".
    """
    wanted = read_body(body, CounterBody)
    if len(wanted.name.encode(errors="surrogatepass")) > LONGEST_NAME:
        raise BadRequestError(
            "the name of the counter is too long",
            fields={"name": f"has more than {LONGEST_NAME} bytes"},
        )
    before, view = await counters.raise_to(head.identity, wanted.name, wanted.value)
    return answers.success(CounterData(before), view)


def _manifest(body: bytes) -> bytes:
    return _given(read_body(body, ManifestBody).manifest)


def proposal_of(body: bytes) -> Proposal:
    """Return what is proposed or agreed to. Raises ``BadRequestError``, ``InvalidError``."""
    read = read_body(body, UpdateBody)
    if read.plan is not None and not _DIGEST.fullmatch(read.plan):
        raise BadRequestError(
            "the digest of the plan is none",
            fields={"plan": "must be 64 hex digits, in lower case"},
            hint="send the digest that POST /api/v2/plan has answered",
        )
    return Proposal(_given(read.manifest), read.plan or "", read.approval)


def cancellation_of(body: bytes) -> bytes | None:
    """Return the approval of a cancellation, if any. Raises ``BadRequestError``.

    What is not a JSON object is not looked at, as it always was.
    """
    return read_body(body, CancelBody).approval if body.lstrip().startswith(b"{") else None


def _given(raw: bytes) -> bytes:
    if not raw:
        raise InvalidError("the manifest", [Problem("", "is missing or empty", _MANIFEST_HINT)])
    require_size(len(raw))
    return raw


def uploads_of(body: bytes) -> Uploads:
    """Return the uploads by name. Raises ``BadRequestError``."""
    return read_body(body, SecretsBody).secrets


def _bounded(read: Callable[[bytes], Uploads], body: bytes) -> Uploads:
    """Return what ``read`` finds. Raises ``TooLargeError`` for more than one upload may have."""
    uploads = read(body)
    if len(body) > DECODED_BYTES:  # no value is longer than its text
        require_size(sum(upload.size for upload in uploads.values()))
    return uploads


def _quote(body: bytes) -> bytes:
    """Return the quote.

    Raises ``BadRequestError`` with a reason for the one field that there is.
    """
    try:
        return read_body(body, SignQuoteBody).sgx_quote
    except BadRequestError as problem:
        reason = "; ".join(f"{name} {text}" for name, text in problem.fields.items())
        raise BadRequestError(
            "the quote cannot be read",
            fields={_QUOTE: reason or problem.message},
            hint=problem.hint or 'send {"sgxQuote": the quote in base64}',
        ) from None
