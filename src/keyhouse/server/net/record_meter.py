"""Cuts a client's bytes into TLS records, and counts TLS records that bring hardly any data.

One call of ``SSL_read`` works until it finds data or its input ends. KeyUpdate messages, empty TLS
records and fragments of handshake messages are not data. So 64 KiB of them cost one call some
10 ms, measured: 300 connections that had prepared such bytes kept all others waiting for 22 s.
Here OpenSSL receives one TLS record at a time. So each call costs at most one TLS record, whatever
its type. The transport can count TLS records, let other connections have their turn, and end a
client that only costs.

Each TLS record should bring ``LEAST`` bytes of data. The missing bytes add up; longer TLS records
and each answer reduce the sum. A client is refused if the sum exceeds its limit. A TLS record
without data counts as a sixteenth of the limit, so a client may send 16 of them in a row, as with
Go's ``crypto/tls`` (``maxUselessRecords``). Honest clients remain far below: TLS libraries send a
KeyUpdate after some million TLS records. A client that writes 100 header fields one by one lacks
6 KiB.

A TLS record begins with 5 bytes: type (1), version (2), length (2). Source: RFC 8446, 5.1.
"""

from typing import Final

MOST_EMPTY: Final = 16
"""Records without data that a client may send between two answers."""

MOST_SMALL: Final = 4096
"""Records with one byte of data that a client may send between two answers."""

LEAST: Final = 64
"""Bytes of data that a record should have. Shorter records are counted."""

HEAD: Final = 5
"""Bytes before the content of a record."""

# Major version of all TLS records.
_MAJOR: Final = 3
_LONGEST: Final = HEAD + 16 * 1024 + 2048  # RFC 5246, 6.2.3; RFC 8446 allows less
_MOST: Final = MOST_SMALL * (LEAST - 1)
_EMPTY: Final = _MOST // MOST_EMPTY


def is_record(head: bytes, count: int) -> bool:
    """Return whether ``count`` received bytes are exactly one complete TLS record.

    ``head``: the first 5 of these bytes.
    """
    return count > HEAD and head[1] == _MAJOR and HEAD + (head[3] << 8) + head[4] == count


class RecordMeter:
    """The unread bytes of a client (``unread``), and the count of its short TLS records."""

    __slots__ = ("_missing", "unread")

    def __init__(self) -> None:
        self.unread = bytearray()
        # Bytes of data that short records lack.
        self._missing = 0

    def whole(self) -> int:
        """Return the size of the first TLS record, or 0 if it is incomplete.

        Bytes that cannot begin a TLS record count as complete: OpenSSL refuses them.
        """
        unread = self.unread
        if len(unread) < HEAD:
            return 0
        size = HEAD + (unread[3] << 8) + unread[4]
        if unread[1] != _MAJOR or size > _LONGEST:
            return len(unread)
        return size if len(unread) >= size else 0

    def remove(self, size: int) -> bytes:
        """Remove the first ``size`` bytes from ``unread``. Return these bytes."""
        unread = self.unread
        record = bytes(unread[:size])
        del unread[:size]
        return record

    def count(self, data: int) -> bool:
        """Count a TLS record with ``data`` bytes of data. Return False if the client sent too many.

        Too many: since the last answer, the client's short records lack more than ``_MOST`` bytes.
        """
        if data:
            self._missing = max(0, self._missing + LEAST - data)
        else:
            self._missing += _EMPTY
        return self._missing <= _MOST

    def reset_count(self) -> None:
        """Reset the count of short TLS records, because the client receives an answer."""
        self._missing = 0
