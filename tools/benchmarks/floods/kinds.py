"""The kinds of floods: records, requests and frames that cost a client little."""

import os
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from hpack import Encoder
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from support.peers.workloads import HEADERS
from support.tls_records import RecordWriter

__all__ = ["CONTROL", "KINDS", "Kind"]

_STATUS: Final = b"GET /api/v2/status HTTP/1.1\r\nHost: a\r\n\r\n"
_BEGIN: Final = b"GET /api/v2/status HTTP/1.1\r\nHost: a\r\nX: "
_LONG_HEAD: Final = 29_000
_ESCAPES: Final = 5_300  # so many escapes fit into a request line
_TARGET: Final = 16_000
_FIELDS: Final = 98
_TOGETHER: Final = 300  # requests in one record
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _WINDOW = 0, 1, 3, 4, 6, 8
_WHOLE, _OPEN = 5, 4  # flags of a block of headers: with and without the end of the stream
_BLOCK: Final = 15_500  # bytes of an encoded block of headers

Units = Iterator[bytes]
"""An endless sequence of units. Each unit is the bytes on the wire."""


class Kind(msgspec.Struct, frozen=True):
    """A kind of unit. ``workloads``: the target is the workload API, else the Client API.

    The first ``opening`` units begin a connection or a request, and do not count as units.
    """

    name: str
    units: Callable[[RecordWriter], Units]
    workloads: bool = False
    opening: int = 0


def _key_updates(writer: RecordWriter) -> Units:
    while True:
        yield writer.key_update()


def _empty_records(writer: RecordWriter) -> Units:
    while True:
        yield writer.record(b"")


def _fragments(writer: RecordWriter) -> Units:
    while True:
        yield writer.fragments(b"\x18")


def _bytes_of_a_head(writer: RecordWriter) -> Units:
    yield writer.data(_BEGIN + b"a" * _LONG_HEAD)
    while True:
        yield writer.record(b"a")


def _bytes_of_chunks(writer: RecordWriter) -> Units:
    yield writer.record(
        b"POST /api/v2/recover HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    while True:
        yield from (writer.record(bytes([byte])) for byte in b"1\r\na\r\n")


def _requests(make: Callable[[], bytes]) -> Callable[[RecordWriter], Units]:
    """Return a function whose units are single requests."""

    def units(writer: RecordWriter) -> Units:
        while True:
            yield writer.data(make())

    return units


def _get(target: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join((b"GET " + target + b" HTTP/1.1", b"Host: a", *fields)) + b"\r\n\r\n"


def _fresh(query: bytes) -> bytes:
    """Return a new request target, so that no cache has the answer."""
    return b"/api/v2/log/checkpoint?" + os.urandom(4).hex().encode() + query


def _frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def _frames(make: Callable[[int], bytes], first: bytes = b"") -> Callable[[RecordWriter], Units]:
    """Return a function whose units are ``make(1)``, ``make(3)`` ..., after the preface."""

    def units(writer: RecordWriter) -> Units:
        yield writer.data(_PREFACE + _frame(_SETTINGS, 0, 0) + first)
        stream = 1
        while True:
            yield writer.data(make(stream))
            stream += 2

    return units


def _calls(block: bytes) -> Callable[[RecordWriter], Units]:
    """Return a function whose units are single calls with the encoded headers ``block``."""
    return _frames(lambda stream: _frame(_HEADERS, _WHOLE, stream, block))


def _literal(name: bytes, value: bytes, *, huffman: bool = False) -> bytes:
    """Return a literal field without indexing (RFC 7541, section 6.2.2)."""
    if huffman:
        value = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH).encode(value)
    return b"\0" + _sized(name, 0) + _sized(value, 0x80 if huffman else 0)


def _sized(text: bytes, bits: int) -> bytes:
    """Return the length and ``text`` (RFC 7541, sections 5.1 and 5.2)."""
    size, most = len(text), 0x7F
    if size < most:
        return bytes([bits | size]) + text
    size -= most
    head = [bits | most]
    while size > most:
        head.append(size & most | 0x80)
        size >>= 7
    return bytes([*head, size]) + text


_CALL: Final = Encoder().encode(HEADERS)
_NO_METHOD: Final = Encoder().encode([*HEADERS[:2], (":path", "/a/b"), *HEADERS[3:]])
_LETTERS: Final = _literal(b"x", b"a" * _BLOCK, huffman=True)
_CODES: Final = _literal(b"x", b"\x16" * (_BLOCK // 4), huffman=True)
_SHORT_CODES: Final = _literal(b"x", b"\x16" * 256, huffman=True)  # 1 KB is within the limit
_PING_FRAME: Final = _frame(_PING, 0, 0, bytes(8))

CONTROL: Final = Kind(
    "control: requests for the status, 300 a record", _requests(lambda: _STATUS * _TOGETHER)
)

# Costly encodings of the headers of a call.
_HEADER_BLOCKS: Final = {
    "fields in Huffman's code": _CALL + _LETTERS,
    "long codes of Huffman": _CALL + _CODES,
    "long codes of Huffman, 1 KB in a call": _CALL + _SHORT_CODES,
    "sizes of the table": b"\x20" * _BLOCK + _CALL,
    "small fields": _CALL + b"\0\1a\0" * 400,
}

KINDS: Final = (
    CONTROL,
    Kind("requests for the status, a record each", _requests(lambda: _STATUS)),
    Kind("KeyUpdate", _key_updates),
    Kind("empty records", _empty_records),
    Kind("fragments of KeyUpdate", _fragments),
    Kind("single bytes behind a head of 29 KB", _bytes_of_a_head, opening=1),
    Kind("single bytes of chunks", _bytes_of_chunks, opening=1),
    Kind("queries of &", _requests(lambda: _get(_fresh(b"&" * _TARGET)))),
    Kind("queries of %61", _requests(lambda: _get(_fresh(b"&newest=" + b"%61" * _ESCAPES)))),
    Kind("paths of %61", _requests(lambda: _get(b"/api/v2/log/object/" + b"%61" * _ESCAPES))),
    Kind(
        "commas in Connection",
        _requests(lambda: _get(b"/api/v2/status", b"Connection: " + b"," * 2 * _TARGET)),
    ),
    Kind(
        "98 fields of 250 bytes",
        _requests(lambda: _get(b"/api/v2/status", *[b"X: " + b"v" * 250] * _FIELDS)),
    ),
    Kind("KeyUpdate, workload API", _key_updates, workloads=True),
    Kind("pings", _frames(lambda _: _PING_FRAME), workloads=True, opening=1),
    Kind(
        "windows", _frames(lambda _: _frame(_WINDOW, 0, 0, b"\0\0\0\1")), workloads=True, opening=1
    ),
    Kind(
        "settings",
        _frames(lambda _: _frame(_SETTINGS, 0, 0, b"\0\4\0\1\0\0" * 32)),
        workloads=True,
        opening=1,
    ),
    Kind(
        "calls that are reset",
        _frames(
            lambda stream: (
                _frame(_HEADERS, _OPEN, stream, _CALL) + _frame(_RESET, 0, stream, bytes(4))
            )
        ),
        workloads=True,
        opening=1,
    ),
    Kind(
        "data of an ended stream",
        _frames(lambda _: _frame(_DATA, 1, 1), _frame(_HEADERS, _OPEN, 1, _NO_METHOD)),
        workloads=True,
        opening=1,
    ),
    *(
        Kind(name, _calls(block), workloads=True, opening=1)
        for name, block in _HEADER_BLOCKS.items()
    ),
)
