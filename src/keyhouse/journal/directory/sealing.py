"""The file ``sealed_key``: the data key, encrypted under a key that the platform derives.

::

    0   magic "KEYHSEAL"
    8   format version (1)
    9   platform kind: length (1 byte), ASCII
    ..  policy: length (1 byte), ASCII
    ..  store id, 16 bytes
    ..  nonce, 12 bytes
    ..  ciphertext: AES-256-GCM-SIV over the canonical MessagePack of ``Contents``; the associated
        data is everything before the nonce
    -32 SHA-256 of all before it

The digest at the end has no key. It distinguishes a damaged file, which is refused by name, from
one that was sealed elsewhere, which requires recovery.
"""

import os

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.secret import Secret
from keyhouse.journal.chain import NONCE_SIZE
from keyhouse.journal.codec import Codec
from keyhouse.journal.directory.framing import framed, unframed
from keyhouse.journal.directory.layout import SEALED_KEY
from keyhouse.journal.keys import DEK_SIZE, STORE_ID_SIZE
from keyhouse.journal.store.protocol import StoreDamagedError
from keyhouse.journal.store.records import CHAIN_SIZE, Position

FORMAT_VERSION = 1
FILE_LIMIT = 64 * 1024  # bytes; the file is much smaller
_MAGIC = b"KEYHSEAL"
_POLICIES = ("ProductKey", "UniqueKey")
_MOST_KEYS = 2


class SealedElsewhereError(KeyhouseError):
    """The file is intact, but this platform derives another key: recovery is needed."""

    code = "sealed-elsewhere"


class EpochKey(msgspec.Struct, frozen=True):
    """The data key of an epoch, and the policy under which it is to be sealed alone."""

    epoch: int
    policy: str
    dek: Secret


class Contents(msgspec.Struct, frozen=True):
    """The sealed content: the present key, the next one while an epoch begins, and the head."""

    keys: tuple[EpochKey, ...]
    head: Position

    def key_of(self, epoch: int) -> EpochKey | None:
        """Return the key of ``epoch``, None if it is not here."""
        return next((key for key in self.keys if key.epoch == epoch), None)


class SealedKey(msgspec.Struct, frozen=True):
    """The fields of the file. Only ``unseal`` proves them."""

    platform_kind: str
    policy: str
    store_id: bytes
    clear: bytes
    nonce: bytes
    ciphertext: bytes


_CODEC = Codec[Contents](Contents, name="sealed_key")


def seal(
    contents: Contents, *, sealing_key: Secret, platform_kind: str, policy: str, store_id: bytes
) -> bytes:
    """Return the bytes of the file, with a new random nonce."""
    if policy not in _POLICIES or len(store_id) != STORE_ID_SIZE:
        raise ValueError("no such policy, or a store id that has not 16 bytes")
    clear = b"".join(
        (_MAGIC, bytes([FORMAT_VERSION]), _short(platform_kind), _short(policy), store_id)
    )
    nonce = os.urandom(NONCE_SIZE)
    plain = _CODEC.encode_checked(contents)
    body = clear + nonce + _cipher(sealing_key, store_id).encrypt(nonce, plain, clear)
    return framed(body)


def parse(raw: bytes) -> SealedKey:
    """Return the parts; raise ``StoreDamagedError`` or ``StoreNewerError``, which name the file."""
    body = unframed(raw, _MAGIC, FORMAT_VERSION, name=SEALED_KEY, damaged=_damaged())
    kind, rest = _take_short(body[len(_MAGIC) + 1 :])
    policy, rest = _take_short(rest)
    if policy not in _POLICIES or len(rest) < STORE_ID_SIZE + NONCE_SIZE:
        raise _damaged()
    store_id, rest = rest[:STORE_ID_SIZE], rest[STORE_ID_SIZE:]
    clear = body[: len(body) - len(rest)]
    return SealedKey(kind, policy, store_id, clear, rest[:NONCE_SIZE], rest[NONCE_SIZE:])


def unseal(sealed: SealedKey, sealing_key: Secret) -> Contents:
    """Return the content; raise ``SealedElsewhereError`` if ``sealing_key`` is another key."""
    cipher = _cipher(sealing_key, sealed.store_id)
    try:
        plain = cipher.decrypt(sealed.nonce, sealed.ciphertext, sealed.clear)
    except (InvalidTag, ValueError):
        raise SealedElsewhereError(
            "sealed_key was sealed on another machine or by other code"
        ) from None
    contents = _CODEC.decode(plain)
    keys = contents.keys
    sound = (
        0 < len(keys) <= _MOST_KEYS
        and all(len(key.dek) == DEK_SIZE and key.policy in _POLICIES for key in keys)
        and len(contents.head.chain) == CHAIN_SIZE
    )
    if not sound:
        raise _damaged()
    return contents


def _cipher(sealing_key: Secret, store_id: bytes) -> AESGCMSIV:
    if len(sealing_key) < DEK_SIZE:
        raise ValueError("a sealing key has at least 32 bytes")
    derivation = HKDF(algorithm=SHA256(), length=32, salt=store_id, info=b"keyhouse sealed key v1")
    return AESGCMSIV(derivation.derive(sealing_key.reveal()))


def _short(text: str) -> bytes:
    raw = text.encode("ascii")
    return bytes([len(raw)]) + raw


def _take_short(raw: bytes) -> tuple[str, bytes]:
    size = raw[0] if raw else 0
    word = raw[1 : 1 + size]
    if not size or len(word) != size or not word.isalnum():
        raise _damaged()
    return word.decode("ascii"), raw[1 + size :]


def _damaged() -> StoreDamagedError:
    return StoreDamagedError(
        "sealed_key is damaged",
        hint="restore it from a backup, or remove it while Keyhouse is stopped to recover "
        "with the recovery keys",
    )
