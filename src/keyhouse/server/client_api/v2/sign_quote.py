"""The shape of signing a quote."""

from typing import Final

from keyhouse.attestation import QuoteRefused
from keyhouse.base.errors import BadRequest
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.routes import INLINE
from keyhouse.server.http.body import read_body
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.server.services.quote_signing import QuoteSigning
from keyhouse.wire.client_api import SignedQuote, SignQuoteBody

__all__ = ["sign_quote"]

_FIELD: Final = "sgxQuote"


async def sign_quote(
    checks: QuoteChecks, signing: QuoteSigning, answers: Answers, head: Head, body: bytes
) -> Answer:
    """Answer the quote's TCB status, and the root key's signature over quote and status."""
    del head
    quote = _quote(body) if len(body) <= INLINE else await checks.in_turn(lambda: _quote(body))
    try:
        status, signature, view = await signing.sign(quote)
    except QuoteRefused as refused:
        raise BadRequest(
            "the quote is not signed", fields={_FIELD: refused.message}, hint=refused.hint
        ) from None
    data = SignedQuote(tcb_status=status, signature=signature, verification_signature=signature)
    return answers.success(data, view)


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
