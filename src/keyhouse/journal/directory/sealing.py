"""The file ``sealed_key``: the data key, encrypted under a key that the platform derives.

::

    0   magic "KEYHSEAL"
    8   format version: 2 if the line of the root is bound, else 1
    9   platform kind: length (1 byte), ASCII
    ..  seal mode: length (1 byte), ASCII
    ..  store id, 16 bytes
    ..  nonce, 12 bytes
    ..  ciphertext: AES-256-GCM-SIV over the canonical MessagePack of ``Contents``; the associated
        data is everything before the nonce
    -32 SHA-256 of all earlier bytes

Format 2 binds the root and its line (``LineMark``). It is never written for an unproven line. Any
code of the signer can derive the key of ``ProductKey``. So ``own`` in the content is an HMAC under
a key of ``UniqueKey``, which proves that exactly this code has sealed the line.

The digest at the end has no key. It distinguishes a damaged file, which has its own error, from a
file sealed elsewhere, which requires a recovery.
"""

import hmac
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.secret import Secret
from keyhouse.journal.chain import DEK_SIZE, NONCE_SIZE, Codec
from keyhouse.journal.directory.disk import SEALED_KEY, Disk, framed, off_loop, unframed
from keyhouse.journal.directory.load_result import LineMark, Vouched, WrongPlatformError
from keyhouse.journal.epoch_reader import NEWEST, RolledBackError
from keyhouse.journal.store.protocol import CHAIN_SIZE, STORE_ID_SIZE, Position, StoreDamagedError

FORMAT_VERSION = 2  # the present format of sealed_key
_WITHOUT_LINE = 1  # the format before lines of roots
FILE_LIMIT = 64 * 1024  # bytes; the file is much smaller
_MAGIC = b"KEYHSEAL"
_POLICIES = ("ProductKey", "UniqueKey")
_UNIQUE = "UniqueKey"
_MOST_KEYS = 2  # the present and the next epoch


class SealedElsewhereError(KeyhouseError):
    """The file is intact, but this platform derives another key. A recovery is necessary."""

    code = "sealed-elsewhere"


class EpochKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data key of an epoch, and its seal mode ``policy``: ``ProductKey`` or ``UniqueKey``."""

    epoch: int
    policy: str
    dek: Secret
    line: LineMark | None = None  # proven, at the base of the epoch or later; format 2


class Contents(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sealed content: the present key, the next key while an epoch begins, and a place.

    ``head``: the end of the journal at the time of the seal. A start refuses a journal that ends
    before ``head``.
    """

    keys: tuple[EpochKey, ...]
    head: Position
    own: bytes = b""  # 32 bytes in format 2 under ``ProductKey``

    @property
    def format(self) -> int:
        """The format of the file for this content."""
        return FORMAT_VERSION if any(key.line for key in self.keys) else _WITHOUT_LINE

    def key_of(self, epoch: int) -> EpochKey | None:
        """Return the data key of ``epoch``; None if the seal has only keys of other epochs."""
        return next((key for key in self.keys if key.epoch == epoch), None)


class SealedKey(msgspec.Struct, frozen=True):
    """The fields of the file ``sealed_key``, not verified. Only ``unseal`` proves them."""

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
    """Return the bytes of the file ``sealed_key`` for ``contents``, with a new random nonce.

    ``policy``: the seal mode. ``sealing_key``: the key of the platform for this seal mode.
    """
    if policy not in _POLICIES or len(store_id) != STORE_ID_SIZE:
        raise ValueError("the policy is unknown, or the store id does not have 16 bytes")
    clear = b"".join(
        (
            _MAGIC,
            bytes([contents.format]),
            _with_length(platform_kind),
            _with_length(policy),
            store_id,
        )
    )
    nonce = os.urandom(NONCE_SIZE)
    plain = _CODEC.encode_checked(contents)
    body = clear + nonce + _cipher(sealing_key, store_id).encrypt(nonce, plain, clear)
    return framed(body)


def parse(raw: bytes) -> SealedKey:
    """Return the fields of the file ``sealed_key`` in ``raw``, not verified.

    Raises ``StoreDamagedError`` or ``StoreNewerError`` with the file's name.
    """
    body = unframed(
        raw, _MAGIC, FORMAT_VERSION, name=SEALED_KEY, damaged=_damaged, oldest=_WITHOUT_LINE
    )
    kind, rest = _split_word(body[len(_MAGIC) + 1 :])
    policy, rest = _split_word(rest)
    if policy not in _POLICIES or len(rest) < STORE_ID_SIZE + NONCE_SIZE:
        raise _damaged()
    store_id, rest = rest[:STORE_ID_SIZE], rest[STORE_ID_SIZE:]
    clear = body[: len(body) - len(rest)]
    return SealedKey(kind, policy, store_id, clear, rest[:NONCE_SIZE], rest[NONCE_SIZE:])


def unseal(sealed: SealedKey, sealing_key: Secret) -> Contents:
    """Return the content of ``sealed``, decrypted and verified with ``sealing_key``.

    Raises ``SealedElsewhereError`` if another key sealed the content.
    """
    cipher = _cipher(sealing_key, sealed.store_id)
    try:
        plain = cipher.decrypt(sealed.nonce, sealed.ciphertext, sealed.clear)
    except (InvalidTag, ValueError):
        raise SealedElsewhereError(
            "sealed_key was sealed on another machine or by other code",
            hint="start that code on that machine, or recover with the recovery keys",
        ) from None
    contents = _CODEC.decode(plain)
    keys = contents.keys
    sound = (
        0 < len(keys) <= _MOST_KEYS
        and all(len(key.dek) == DEK_SIZE and key.policy in _POLICIES for key in keys)
        and len(contents.head.chain) == CHAIN_SIZE
        and sealed.clear[len(_MAGIC)] == contents.format
    )
    if not sound:
        raise _damaged()
    return contents


def _own(unique_key: Secret, contents: Contents, store_id: bytes) -> bytes:
    """Return the HMAC for the field ``own``, over ``contents`` without this field.

    Only this code on this machine can derive ``unique_key``, the key for the HMAC.
    """
    derivation = HKDF(algorithm=SHA256(), length=32, salt=store_id, info=b"keyhouse sealed line v1")
    key = derivation.derive(unique_key.reveal())
    return hmac.digest(key, _CODEC.encode(msgspec.structs.replace(contents, own=b"")), "sha256")


def _cipher(sealing_key: Secret, store_id: bytes) -> AESGCMSIV:
    if len(sealing_key) < DEK_SIZE:
        raise ValueError("a sealing key must have at least 32 bytes")
    derivation = HKDF(algorithm=SHA256(), length=32, salt=store_id, info=b"keyhouse sealed key v1")
    return AESGCMSIV(derivation.derive(sealing_key.reveal()))


def _with_length(text: str) -> bytes:
    raw = text.encode("ascii")
    return bytes([len(raw)]) + raw


def _split_word(raw: bytes) -> tuple[str, bytes]:
    size = raw[0] if raw else 0
    word = raw[1 : 1 + size]
    if not size or len(word) != size or not word.isalnum():
        raise _damaged()
    return word.decode("ascii"), raw[1 + size :]


def _damaged() -> StoreDamagedError:
    return StoreDamagedError(
        "sealed_key is damaged",
        hint="restore sealed_key from a backup, or remove the file while Keyhouse is stopped and"
        " recover with the recovery keys",
    )


class KeyFile:
    """Seals data keys for a platform, and unseals them there."""

    def __init__(
        self, folder: Path, disk: Disk, platform_kind: str, sealing_key: Callable[[str], Secret]
    ) -> None:
        """Store the arguments. ``folder``: the directory of the file ``sealed_key``.

        ``sealing_key`` returns the platform's key for a seal mode: ``ProductKey`` or ``UniqueKey``.
        This function may block, so it runs in a thread.
        """
        self._path = folder / SEALED_KEY
        self._disk = disk
        self._platform_kind = platform_kind
        self._sealing_key = sealing_key

    def read(self) -> SealedKey | None:
        """Return the content of the file, or None if missing. Raises ``WrongPlatformError``."""
        raw = self._disk.read(self._path, limit=FILE_LIMIT)
        if raw is None:
            return None
        sealed = parse(raw)
        if sealed.platform_kind != self._platform_kind:
            raise WrongPlatformError(
                f"sealed_key was made on the platform {sealed.platform_kind}, "
                f"this coordinator runs on {self._platform_kind}",
                hint="start Keyhouse on the platform that the state belongs to",
            )
        return sealed

    async def unseal(self, sealed: SealedKey) -> Contents:
        """Return the keys and the head in ``sealed``. Raises ``SealedElsewhereError``."""
        sealing_key = await off_loop(self._sealing_key, sealed.policy)
        return unseal(sealed, sealing_key)

    async def vouched(self, sealed: SealedKey, contents: Contents, key: EpochKey) -> Vouched | None:
        """Return the statement of the seal about the line of the root; None without a line.

        The statement also says whether exactly this code made the seal. ``contents``: the contents
        of ``sealed``, unsealed here. ``key``: the data key in ``contents`` for the journal's epoch.
        """
        if key.line is None:
            return None
        is_own = sealed.policy == _UNIQUE
        if not is_own and contents.own:
            unique = await off_loop(self._sealing_key, _UNIQUE)
            is_own = hmac.compare_digest(contents.own, _own(unique, contents, sealed.store_id))
        return Vouched(key.line, contents.head, is_own=is_own)

    async def seal(self, contents: Contents, store_id: bytes) -> bytes:
        """Return ``contents``, sealed under the seal mode of their newest data key."""
        policy = contents.keys[-1].policy
        sealing_key = await off_loop(self._sealing_key, policy)
        if policy != _UNIQUE and contents.format == FORMAT_VERSION:
            unique = await off_loop(self._sealing_key, _UNIQUE)
            contents = msgspec.structs.replace(contents, own=_own(unique, contents, store_id))
        return seal(
            contents,
            sealing_key=sealing_key,
            platform_kind=self._platform_kind,
            policy=policy,
            store_id=store_id,
        )

    async def write(self, contents: Contents, store_id: bytes) -> None:
        """Write ``contents``, sealed for the store ``store_id``, to ``sealed_key``, atomically.

        The file is durable afterwards.
        """
        raw = await self.seal(contents, store_id)
        await off_loop(self._disk.write, self._path, raw)


def key_of(contents: Contents, epoch: int) -> EpochKey:
    """Return the data key in ``contents`` for the journal's ``epoch``.

    Raises ``RolledBackError`` if all keys belong to later epochs, and ``StoreDamagedError`` if the
    file is an old copy.
    """
    key = contents.key_of(epoch)
    if key is not None:
        return key
    if all(known.epoch > epoch for known in contents.keys):
        raise RolledBackError(
            f"journal.db is at epoch {epoch}, sealed_key at epoch {contents.keys[0].epoch}: "
            "the journal was rolled back",
            hint=NEWEST,
        )
    raise StoreDamagedError(
        f"sealed_key is at epoch {contents.keys[0].epoch}, journal.db at epoch {epoch}: "
        "sealed_key is an old copy",
        hint="restore sealed_key and journal.db from one backup, or remove sealed_key while"
        " Keyhouse is stopped and recover with the recovery keys",
    )
