"""Signing a quote that verifies: for clients that trust the root key and no platform's vendor."""

from typing import Final

from keyhouse.attestation import QuoteRefused
from keyhouse.authority import sign_quote_text
from keyhouse.base.errors import BadRequest
from keyhouse.server.client_api.service import INLINE, Service
from keyhouse.server.http.body import read_body
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.wire.client_api import SignedQuote, SignQuoteBody

__all__ = ["sign_quote"]

_FIELD: Final = "sgxQuote"


async def sign_quote(service: Service, head: Head, body: bytes) -> Answer:
    """Answer the quote's TCB status, and the root key's signature over quote and status.

    The quote is signed as it was submitted, with the header in front or without. It is compared
    with no package. Source: Client API, "sign-quote".
    """
    checks = service.quote_checks
    quote = _quote(body) if len(body) <= INLINE else await checks.in_turn(lambda: _quote(body))
    try:
        verdict = await checks.verify(quote)
    except QuoteRefused as refused:
        raise BadRequest(
            "the quote is not signed", fields={_FIELD: refused.message}, hint=refused.hint
        ) from None
    # The manifest may have been replaced by one that does not enable this.
    view = service.judged_again(head)
    keys, status = view.state.keys, verdict.tcb_status
    signature = await checks.in_turn(lambda: sign_quote_text(keys, quote, status))
    data = SignedQuote(tcb_status=status, signature=signature, verification_signature=signature)
    return service.success(data, view)


def _quote(body: bytes) -> bytes:
    """Return the quote. Raises ``BadRequest`` with a reason for the one field that there is."""
    try:
        return read_body(body, SignQuoteBody).sgx_quote
    except BadRequest as problem:
        reason = "; ".join(f"{name} {text}" for name, text in problem.fields.items())
        raise BadRequest(
            "the quote cannot be read",
            fields={_FIELD: reason or problem.message},
            hint=problem.hint or 'send {"sgxQuote": the quote in base64}',
        ) from None
