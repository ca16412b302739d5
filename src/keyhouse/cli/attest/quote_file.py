"""Files of quotes, binary or base64."""

from collections.abc import Iterator
from contextlib import contextmanager

from keyhouse.attestation import QuoteRefusedError
from keyhouse.attestation.errors import QuoteProblem
from keyhouse.base.errors import BadRequestError
from keyhouse.base.named_files import read_file
from keyhouse.wire.base64_text import decode_base64


def quote_of_file(content: bytes) -> bytes:
    """Return the quote of a file. No quote is base64: it begins with a byte that is no letter."""
    try:
        return decode_base64(content.decode("ascii").strip())
    except (UnicodeDecodeError, BadRequestError):
        return content


@contextmanager
def reading_quote(path: str) -> Iterator[bytes]:
    """Give the quote in the file ``path``; the block's refusal of a malformed one names the file.

    ``-`` is standard input. Raises ``FileUnreadableError``, and what the block raises.
    """
    content = read_file(path)
    try:
        yield quote_of_file(content)
    except QuoteRefusedError as refused:
        if refused.reason is not QuoteProblem.MALFORMED:
            raise
        name = "<standard input>" if path == "-" else path
        raise QuoteRefusedError(
            refused.reason,
            f"{name}: {refused.message}",
            hint=refused.hint or "a quote is binary, or base64 of that: is it the right file?",
        ) from None
