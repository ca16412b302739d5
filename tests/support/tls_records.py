"""TLS 1.3 records that no library sends: KeyUpdate messages, empty records, single bytes.

The traffic secrets of a client come from its key log.
Sources: RFC 8446, 4.6.3, 5.2, 7.1 to 7.3.
"""

import ssl
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

__all__ = ["RecordWriter", "logged_keys"]

_HANDSHAKE, _DATA = 22, 23
_KEY_UPDATE: Final = b"\x18\x00\x00\x01"
_TAG: Final = 16
_MOST: Final = 16_000  # bytes of data in a record


def logged_keys(context: ssl.SSLContext, folder: Path) -> Path:
    """Limit ``context`` to TLS 1.3 and log its keys; return the path of the key log."""
    file = folder / "keys"
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.keylog_filename = str(file)
    return file


class RecordWriter:
    """Writes the records of the newest client in the key log ``file``.

    The client has completed its handshake, and has sent no data.
    """

    def __init__(self, file: Path, cipher: str) -> None:
        found = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
        secrets = [words[2] for words in found if words[0] == "CLIENT_TRAFFIC_SECRET_0"]
        self._secret = bytes.fromhex(secrets[-1])
        self._hash = hashes.SHA384() if cipher.endswith("384") else hashes.SHA256()
        self._key_bytes = 32 if "256_GCM" in cipher else 16
        assert "GCM" in cipher
        self._begin_keys()

    def data(self, data: bytes) -> bytes:
        """Return ``data`` as records of at most ``_MOST`` bytes."""
        pieces = [data[begin : begin + _MOST] for begin in range(0, len(data), _MOST)]
        return b"".join(self.record(piece) for piece in pieces)

    def record(self, data: bytes, kind: int = _DATA) -> bytes:
        """Return a record with ``data``, which may be empty."""
        plain = data + bytes([kind])
        head = b"\x17\x03\x03" + (len(plain) + _TAG).to_bytes(2, "big")
        nonce = (self._iv ^ self._number).to_bytes(12, "big")
        self._number += 1
        return head + self._cipher.encrypt(nonce, plain, head)

    def key_update(self, *, asks: bool = True) -> bytes:
        """Return a KeyUpdate. ``asks``: the server must send a KeyUpdate in answer."""
        found = self.record(_KEY_UPDATE + bytes([asks]), _HANDSHAKE)
        self._secret = self._derived(b"traffic upd", self._hash.digest_size)
        self._begin_keys()
        return found

    def fragments(self, message: bytes) -> bytes:
        """Return a handshake message in records of one byte."""
        return b"".join(self.record(bytes([byte]), _HANDSHAKE) for byte in message)

    def _begin_keys(self) -> None:
        self._cipher = AESGCM(self._derived(b"key", self._key_bytes))
        self._iv = int.from_bytes(self._derived(b"iv", 12), "big")
        self._number = 0

    def _derived(self, label: bytes, size: int) -> bytes:
        name = b"tls13 " + label
        info = size.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
        return HKDFExpand(self._hash, size, info).derive(self._secret)
