"""Heads and chunked bodies of HTTP/1.1 requests, read by Keyhouse and by h11.

Oracle: h11 accepts each accepted head, with the same method, target, length of the body, chunks,
keep-alive and expectation of 100-continue. The fast reader with one expression
(``read_common_head``) returns the same as the reader of single fields. ``Beginning`` permits every
beginning of an accepted head. Keyhouse may refuse more than h11. The only permitted exception is
``MalformedError``.

Differences to h11: h11 accepts a length of up to 20 digits, Keyhouse up to 15 digits. h11 reports
the expectation of 100-continue also without a body. h11 refuses blanks before the extension of a
chunk, but RFC 9112, 7.1.1 permits them.
"""

import re
from random import Random
from typing import ClassVar, Final

import h11
from fuzz.mutations import mutated
from fuzz.target import FindingError, Target

from keyhouse.server.http.chunks import ChunkedBody
from keyhouse.server.http.head import (
    CHUNKED,
    HEAD_END,
    Beginning,
    MalformedError,
    RequestHead,
    read_any_head,
    read_common_head,
    read_head,
    readable_path,
)
from keyhouse.server.net.limits import Limits

__all__ = ["HttpTarget"]

_LIMITS: Final = Limits()
_MOST: Final = 10_000  # bytes of the longest body for h11
_BLANKS: Final = re.compile(rb"[0-9A-Fa-f][ \t]+;")
_WORDS: Final = (
    *(b"\r\n", b"\n", b"\r", b"\r\n ", b"\r\n\t", b"\0", b"\x0b", b" ", b"\t", b":", b"%00", b"%"),
    *(b"\r\nHost: b", b"\r\nContent-Length: 5", b"\r\nContent-Length: 0", b"\r\ncontent-length:+5"),
    *(b"\r\nTransfer-Encoding: chunked", b"\r\nTransfer-Encoding: gzip, chunked", b", chunked"),
    *(b"\r\nConnection: close", b"\r\nConnection: x,CLOSE", b"\r\nConnection: keep-alive"),
    *(b"\r\nExpect: 100-continue", b"\r\nUpgrade: h2c", b" HTTP/1.0", b" HTTP/1.1", b"HTTP/2.0"),
    *(b"#", b"?", b"//", b"http://a", b"\x80", b"\xff", b"%c3%a4", b"[::1]", b"@", b"1_0", b"0x5"),
)
_HEADS: Final = (
    b"GET /api/v2/status HTTP/1.1\r\nHost: localhost:4433\r\nUser-Agent: curl/8\r\n\r\n",
    (
        b"POST /a?s=1&s=%41 HTTP/1.1\r\nhost:[::1]:1\r\nconnection: Keep-Alive\r\nX:\r\n"
        b"Content-Length: 5\r\n\r\n"
    ),
    (
        b"POST /%61/%C3%A4 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
        b"Expect: 100-continue\r\n\r\n"
    ),
    b"GET / HTTP/1.0\r\nContent-Length: 3\r\n\r\n",
    b"PUT /x HTTP/1.1\r\nHost: a.b\r\nConnection: a, close\r\nContent-Encoding: identity\r\n\r\n",
)
_CHUNKS: Final = (
    b"5\r\nhello\r\n0\r\n\r\n",
    b"A;x=y\r\n0123456789\r\n1\r\na\r\n0\r\n\r\n",
    b'3 ; a="b"\r\nabc\r\n00\r\n\r\n',
)


class HttpTarget(Target):
    """Heads of requests, followed by chunks."""

    name: ClassVar[str] = "http"
    about: ClassVar[str] = "HTTP request heads and chunks, compared with h11"

    def draw(self, chance: Random) -> bytes:
        """Return a head with its end, followed by chunks."""
        head = mutated(chance.choice(_HEADS), chance, _WORDS)
        if HEAD_END not in head:
            head += HEAD_END
        chunks = chance.choice(_CHUNKS)
        return head + (
            mutated(chunks, chance, (b"\r\n", b"0", b";")) if chance.random() < 0.5 else chunks
        )

    def judge(self, case: bytes) -> str:
        """Read the head with both readers, and the chunks after the head."""
        end = case.index(HEAD_END) + 4
        head, rest = case[:end], case[end:]
        readable_path(head)
        try:
            ours = read_head(head, _LIMITS)
        except MalformedError as malformed:
            if read_common_head(head, _LIMITS) is not None:
                raise FindingError("the fast reader accepts a refused head") from None
            return f"refused: {malformed.status} {malformed.message}"
        common = read_common_head(head, _LIMITS)
        if common is not None and common != read_any_head(head, _LIMITS):
            raise FindingError("the two readers of heads return different heads")
        passed = Beginning()
        for size in range(1, end - 3):
            passed.check(bytearray(head[:size]), _LIMITS)
        return f"accepted: {_compared(ours, head, rest)}"


def _compared(ours: RequestHead, head: bytes, rest: bytes) -> str:
    """Compare a head and its body with h11. Raises ``FindingError`` for a difference."""
    other = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    other.receive_data(head)
    try:
        event = other.next_event()
    except h11.RemoteProtocolError as error:
        raise FindingError(f"h11 refuses the head: {error}") from None
    if not isinstance(event, h11.Request):
        raise FindingError("h11 finds no request")
    path, _, query = event.target.partition(b"?")
    fields = dict(event.headers)
    length = CHUNKED if b"transfer-encoding" in fields else int(fields.get(b"content-length", b"0"))
    if (event.method.decode(), query, length) != (ours.method, ours.query, ours.length):
        raise FindingError("h11 reads a different method, query or length")
    if _unquoted(path) != ours.path:
        raise FindingError("the decoded path differs")
    if length != 0 and other.they_are_waiting_for_100_continue != ours.expects_continue:
        raise FindingError("h11 reads a different expectation of 100-continue")
    body = (
        _read_chunks(rest) if length == CHUNKED else rest[:length].ljust(min(length, _MOST), b"x")
    )
    if body is None or length > _MOST:
        return "head"
    if length == CHUNKED and _BLANKS.search(rest):
        return "head, chunks with blanks"
    received = _read_by_h11(other, rest if length == CHUNKED else body)
    if received != body:
        raise FindingError("h11 reads a different body")
    if (other.their_state is h11.DONE) != ours.keep_alive:
        raise FindingError("h11 reads a different keep-alive")
    return "head and body"


def _read_chunks(rest: bytes) -> bytes | None:
    """Return the body from Keyhouse's reader; None for malformed, unfinished or long chunks."""
    chunks = ChunkedBody()
    try:
        chunks.feed(rest, _MOST)
    except MalformedError:
        return None
    return chunks.content() if chunks.complete and chunks.size <= _MOST else None


def _read_by_h11(other: h11.Connection, data: bytes) -> bytes:
    if data:
        other.receive_data(data)
    body = b""
    try:
        while isinstance(event := other.next_event(), h11.Data):
            body += event.data
    except h11.RemoteProtocolError as error:
        raise FindingError(f"h11 refuses the body: {error}") from None
    if not isinstance(event, h11.EndOfMessage):
        raise FindingError("h11 finds no end of the body")
    return body


def _unquoted(path: bytes) -> str:
    """Return the decoded path (RFC 3986, 2.1)."""
    first, *others = path.split(b"%")
    return (first + b"".join(bytes.fromhex(o[:2].decode()) + o[2:] for o in others)).decode()
