"""The body of a request: its bytes and memory until the answer, and its first JSON value, typed."""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from keyhouse.base.errors import BadRequestError, TooLargeError
from keyhouse.server.http.chunks import ChunkedBody
from keyhouse.server.http.head import CHUNKED, MalformedError
from keyhouse.server.net.fair_share import Pool, Share
from keyhouse.wire.json_decoder import decode

T = TypeVar("T", bound=msgspec.Struct)

DECODED_BYTES: Final = 16 * 1024 * 1024
"""Largest manifest, or sum of all secrets of an upload, in bytes after base64 decoding."""

ENCODED_BYTES: Final = DECODED_BYTES * 4 // 3 + 1024 * 1024
"""Largest body for this content: base64, with room for line ends and names."""


def read_body(body: bytes, shape: type[T]) -> T:
    """Return the first JSON value of ``body`` as ``shape``. Bytes after this value are ignored.

    Field names match in any case. Unknown fields are ignored. The last of repeated fields counts.

    Raises: BadRequestError: the body is empty or unreadable; the error names the wrong fields.
    """
    if not body.strip():
        raise BadRequestError(
            "the body is empty",
            fields={"body": "is empty, must be a JSON object"},
            hint="send a JSON object",
        )
    return decode(body, shape, ignore_rest=True)


def require_size(decoded: int) -> None:
    """Refuse content of more than ``DECODED_BYTES``.

    ``decoded``: the size of the content in bytes, after base64 decoding.

    Raises: TooLargeError: the content is larger.
    """
    if decoded > DECODED_BYTES:
        raise TooLargeError(
            f"the content has {decoded} bytes, at most {DECODED_BYTES} are accepted",
            fields={"body": "is too large after base64 decoding"},
            hint="make the manifest smaller, or upload the secrets in several requests",
        )


class IncomingBody:
    """The body of a request, while its bytes arrive and until its answer.

    ``length``: the announced bytes, or ``CHUNKED``. ``limit``: the most bytes that the route
    accepts. ``pool``: the memory for bodies, from which the body reserves its bytes until
    ``forget``. ``lose`` drops the request; the pool calls it when smaller bodies need memory.

    Raises: MalformedError: the body is too long, or finds no memory.
    """

    __slots__ = ("_chunks", "_length", "_limit", "_lose", "_piece", "_share", "chunked_size")

    def __init__(self, length: int, limit: int, pool: Pool, lose: Callable[[], None]) -> None:
        if length > limit:
            raise _too_long(limit)
        self._length = length
        self._limit = limit
        self._lose = lose
        self._share: Share | None = Share(pool)
        self._chunks = ChunkedBody() if length == CHUNKED else None
        self._piece = bytearray()
        # Received bytes of a chunked body.
        self.chunked_size = 0
        if self._chunks is None:
            self._reserve(length)

    def read(self, buffer: bytearray, at: int) -> tuple[bytes | None, int]:
        """Read the body from ``buffer``, beginning at the index ``at``.

        Return the complete body or None, and the index of the first unread byte. Raises
        ``MalformedError``.
        """
        if self._chunks is not None:
            return self._read_chunks(self._chunks, buffer, at)
        end = min(len(buffer), at + self._length - len(self._piece))
        with memoryview(buffer) as view:
            self._piece += view[at:end]
        if len(self._piece) < self._length:
            return None, end
        whole, self._piece = bytes(self._piece), bytearray()
        return whole, end

    def in_queue(self, waits: bool) -> None:  # noqa: FBT001 - the one thing it takes
        """Let the pool drop the body while its request ``waits`` in a queue.

        With False, the request runs, and the pool never drops its body.
        """
        share = self._share
        if share is not None and waits:
            share.pool.record_size(share, share.held, self._lose)
        elif share is not None:
            share.pool.protect(share)

    def forget(self) -> None:
        """Release the body's share of the memory for all bodies."""
        share, self._share = self._share, None
        if share is not None:
            share.release(share.held)

    def _read_chunks(
        self, chunks: ChunkedBody, buffer: bytearray, at: int
    ) -> tuple[bytes | None, int]:
        before = chunks.size
        chunks.feed(bytes(buffer[at:]), self._limit)
        if chunks.size > self._limit:
            raise _too_long(self._limit)
        self.chunked_size = chunks.size
        self._reserve(chunks.size - before)
        if not chunks.complete:
            return None, len(buffer)
        self._chunks = None
        return chunks.content(), len(buffer) - len(chunks.rest())

    def _reserve(self, count: int) -> None:
        if self._share is None or not self._share.acquire(count, self._lose):
            raise too_many_bodies()


def too_many_bodies() -> MalformedError:
    """Return the error for a request whose body finds no memory in the pool."""
    return MalformedError(503, "connection", "too many bodies are being sent", "try again later")


def _too_long(limit: int) -> MalformedError:
    return MalformedError(
        413, "body", f"the body is longer than {limit} bytes", "send a smaller body"
    )
