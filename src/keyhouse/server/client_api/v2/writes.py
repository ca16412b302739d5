"""Handlers of requests that change state, for version 2 and, with other body readers, version 1."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from keyhouse.attestation import QuoteRefusedError
from keyhouse.base.errors import BadRequestError, InvalidError, Problem
from keyhouse.coordinator import StaleError, UploadSecrets
from keyhouse.server.client_api.bodies import still_needed, warnings_message
from keyhouse.server.client_api.routes import INLINE, UseCases, user_of
from keyhouse.server.http.body import DECODED_BYTES, read_body, require_size
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.server.services import feature_gates
from keyhouse.server.services.manifests import Agreement, Proposal
from keyhouse.wire import client_api as wire
from keyhouse.wire.field_presence import LEFT_OUT
from keyhouse.wire.secret_types import UserSecret

CANCELLED: Final = "the pending update is cancelled"

NOT_WITNESSED: Final = "no quorum of the witnesses has cosigned this yet: a host can roll it back"


def _unwitnessed(agreement: Agreement) -> tuple[str, ...]:
    """Return a warning if no quorum of witnesses has cosigned the change yet."""
    return (NOT_WITNESSED,) if agreement.witnessed is False else ()


def _data(kind: type[wire.UpdateAnswer], agreement: Agreement, message: str) -> wire.UpdateAnswer:
    return kind(
        message=message,
        signed=LEFT_OUT,
        missing_acknowledgments=agreement.missing,
        missing_users=agreement.missing_users,
        recovery_secrets=agreement.recovery_secrets or LEFT_OUT,
        witnessed=LEFT_OUT if agreement.witnessed is None else agreement.witnessed,
    )


LONGEST_NAME: Final = 256
"""Largest name of a counter, in bytes of UTF-8. The name may be empty."""

Uploads = Mapping[str, UserSecret]

_QUOTE: Final = "sgxQuote"
_DIGEST: Final = "[0-9a-f]{64}"
_MANIFEST_HINT: Final = 'send {"manifest": its JSON text in base64}'


async def set_manifest(to: UseCases, _head: Head, body: bytes) -> Answer:
    """Enforce the first manifest. Return the recovery secrets for the holders of the keys."""
    enforced = await to.first_manifest.set(lambda: _manifest(body))
    data = wire.SetManifestData(enforced.recovery_secrets, enforced.recovery_secrets)
    return to.answers.success(data, enforced.view, warnings_message(enforced.warnings))


async def write_secrets(
    read: Callable[[bytes], Uploads], within: str, to: UseCases, head: Head, body: bytes
) -> Answer:
    """Store an upload of a user, completely or not at all.

    ``read`` decodes the body. ``within``: the field of the body with the uploads, for findings that
    name a field; "" if the uploads are the whole body. A small upload is decoded and checked on the
    event loop. A thread checks a large upload, and an upload whose state has changed meanwhile.
    """

    def prepare() -> UploadSecrets:
        from keyhouse.coordinator import prepare_upload

        state = to.engine.view.running
        return prepare_upload(state, head.identity, _bounded(read, body), within=within)

    if len(body) <= INLINE:
        with suppress(StaleError):
            return to.answers.success(None, await to.engine.submit(prepare()))
    _, view = await to.preparation.submitted(prepare)
    return to.answers.success(None, view)


async def plan_update(to: UseCases, head: Head, body: bytes) -> Answer:
    """Return the effects of an update and a digest, without any change.

    A user who sends the digest with the update agrees to exactly these effects.
    """
    plan, view = await to.updates.plan(head.identity, lambda: _manifest(body))
    data = await to.preparation.off_loop(lambda: msgspec.json.encode(plan))
    return to.answers.encoded(data, view)


async def update_manifest(
    read: Callable[[bytes], Proposal], to: UseCases, head: Head, body: bytes
) -> Answer:
    """Raise security versions of packages, or propose a full update. ``read`` decodes the body."""
    agreement = await to.updates.propose(head.identity, lambda: read(body))
    notes = "; ".join((*agreement.notes, *_unwitnessed(agreement)))
    return to.answers.success(_data(wire.UpdateAnswer, agreement, LEFT_OUT), agreement.view, notes)


async def acknowledge_update(
    read: Callable[[bytes], Proposal], to: UseCases, head: Head, body: bytes
) -> Answer:
    """Agree to the pending manifest. ``read`` decodes the body.

    The answer's message begins with ``All`` after the last agreement, otherwise with the number of
    missing agreements. Clients parse this beginning.
    """
    agreement = await to.updates.acknowledge(head.identity, lambda: read(body))
    parts = ["All necessary users have agreed: the update is applied", *agreement.notes]
    if agreement.missing:
        parts = [still_needed(agreement.missing)]
    message = "; ".join((*parts, *_unwitnessed(agreement)))
    return to.answers.success(_data(wire.AcknowledgedData, agreement, message), agreement.view)


async def cancel_update(
    read: Callable[[bytes], bytes | None],
    data: wire.MessageData | str,
    to: UseCases,
    head: Head,
    body: bytes,
) -> Answer:
    """Cancel the pending manifest, and return ``data`` as the data of the answer.

    ``read`` returns the signed approval in the body, or None.
    """
    agreement = await to.updates.cancel(user_of(head), lambda: read(body))
    return to.answers.success(data, agreement.view, "; ".join(_unwitnessed(agreement)))


async def sign_quote(to: UseCases, _head: Head, body: bytes) -> Answer:
    """Return the TCB status of a quote, and the root key's signature over quote and status.

    Source: ``docs/reference/routes.md``.
    """
    inline = len(body) <= INLINE
    quote = _quote(body) if inline else await to.quote_checks.in_turn(lambda: _quote(body))
    try:
        signed = await feature_gates.sign_quote(to.engine, to.quote_checks, quote)
    except QuoteRefusedError as refused:
        raise BadRequestError(
            "the quote is not signed", fields={_QUOTE: refused.message}, hint=refused.hint
        ) from None
    data = wire.SignedQuote(
        tcb_status=signed.tcb_status,
        signature=signed.signature,
        verification_signature=signed.signature,
    )
    return to.answers.success(data, signed.view)


async def raise_counter(to: UseCases, head: Head, body: bytes) -> Answer:
    """Raise a counter of the calling workload to a higher value, and return the previous value.

    Source: ``docs/reference/activations.md``, "Counters".
    """
    wanted = read_body(body, wire.CounterBody)
    if len(wanted.name.encode(errors="surrogatepass")) > LONGEST_NAME:
        raise BadRequestError(
            f"the name of the counter must have at most {LONGEST_NAME} bytes",
            fields={"name": f"has more than {LONGEST_NAME} bytes"},
            hint="choose a shorter name",
        )
    before, view = await feature_gates.raise_counter(
        to.engine, head.identity, wanted.name, wanted.value
    )
    return to.answers.success(wire.CounterData(before), view)


def _manifest(body: bytes) -> bytes:
    return _given(read_body(body, wire.ManifestBody).manifest)


def proposal_of(body: bytes) -> Proposal:
    """Return the manifest in ``body``, with the plan's digest and the signed approval, if present.

    Raises ``BadRequestError``, ``InvalidError``.
    """
    read = read_body(body, wire.UpdateBody)
    if read.plan is not None and not re.fullmatch(_DIGEST, read.plan):
        raise BadRequestError(
            "the digest of the plan is invalid",
            fields={"plan": "must be 64 hex digits, in lower case"},
            hint="send the digest that keyhouse manifest plan prints",
        )
    return Proposal(_given(read.manifest), read.plan or "", read.approval)


def cancellation_of(body: bytes) -> bytes | None:
    """Return the signed approval of a cancellation, or None. Raises ``BadRequestError``.

    A body that is not a JSON object is ignored, as earlier versions did.
    """
    return read_body(body, wire.CancelBody).approval if body.lstrip().startswith(b"{") else None


def _given(raw: bytes) -> bytes:
    if not raw:
        raise InvalidError("the manifest", [Problem("", "is missing or empty", _MANIFEST_HINT)])
    require_size(len(raw))
    return raw


def uploads_of(body: bytes) -> Uploads:
    """Return the uploaded values by the name of the secret. Raises ``BadRequestError``."""
    return read_body(body, wire.SecretsBody).secrets


def _bounded(read: Callable[[bytes], Uploads], body: bytes) -> Uploads:
    """Return the uploads in ``body``, decoded by ``read``.

    Raises ``TooLargeError`` if their values have more than ``DECODED_BYTES`` in total.
    """
    uploads = read(body)
    # A value is never longer than its text.
    if len(body) > DECODED_BYTES:
        require_size(sum(upload.size for upload in uploads.values()))
    return uploads


def _quote(body: bytes) -> bytes:
    """Return the quote in the ``body`` of a request to sign a quote.

    Raises ``BadRequestError``, with all reasons at the field of the quote.
    """
    try:
        return read_body(body, wire.SignQuoteBody).sgx_quote
    except BadRequestError as problem:
        reason = "; ".join(f"{name} {text}" for name, text in problem.fields.items())
        raise BadRequestError(
            "the quote cannot be read",
            fields={_QUOTE: reason or problem.message},
            hint=problem.hint or 'send {"sgxQuote": the quote in base64}',
        ) from None
