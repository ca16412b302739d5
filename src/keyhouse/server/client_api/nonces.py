"""Reads the nonce of a caller for a quote: the parameter ``nonce`` of a query."""

from keyhouse.base.errors import BadRequestError
from keyhouse.server.http.query import short_values
from keyhouse.server.services.quotes import NONCE_BYTES
from keyhouse.wire.base64_text import decode_base64url


def nonce_in(query: bytes) -> bytes:
    """Return the parameter ``nonce`` of ``query``, decoded from base64; empty without a nonce.

    Raises ``BadRequestError``.
    """
    if not query:
        return b""
    given = short_values(query, "nonce")
    if len(given) > 1:
        raise BadRequestError(
            "the query has more than one nonce",
            fields={"nonce": "is given more than once"},
            hint="send the parameter nonce once",
        )
    if not given:
        return b""
    try:
        return decode_base64url(given[0], maximum=NONCE_BYTES)
    except BadRequestError as problem:
        raise BadRequestError(f"the nonce {problem}", fields={"nonce": str(problem)}) from None
