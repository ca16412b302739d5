"""Read files with quotes, binary or base64."""

from collections.abc import Iterator
from contextlib import contextmanager

from keyhouse.attestation import QuoteRefusedError
from keyhouse.attestation.errors import QuoteProblem
from keyhouse.base.errors import BadRequestError
from keyhouse.base.user_files import read_file
from keyhouse.wire.base64_text import decode_base64


def quote_of_file(content: bytes) -> bytes:
    """Return the quote in ``content``, the content of a file: binary or base64.

    A binary quote is never valid base64: its first byte is not a base64 character.
    """
    try:
        return decode_base64(content.decode("ascii").strip())
    except (UnicodeDecodeError, BadRequestError):
        return content


@contextmanager
def reading_quote(path: str) -> Iterator[bytes]:
    """Yield the quote in the file ``path``; ``-`` is standard input.

    If the block raises ``QuoteRefusedError`` for a malformed quote, the message names the file.
    Raises ``FileUnreadableError``, and each exception of the block.
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
            hint="pass the file with the quote, binary or base64",
        ) from None
