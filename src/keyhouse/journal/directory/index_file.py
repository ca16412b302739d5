"""The file ``recovery_index``: bytes for the holders of recovery keys, kept for one epoch.

::

    0   magic "KEYHINDX"
    8   format version (1)
    9   store id, 16 bytes
    25  epoch, u64 big-endian
    33  content: the recovery index, opaque bytes for this file
    -32 SHA-256 of all earlier bytes

Store id and epoch state whether the file belongs to the journal in the same directory. At the
beginning of an epoch, two such files exist, and the journal decides which file is valid.
"""

import struct
from pathlib import Path

import msgspec

from keyhouse.journal.directory.disk import INDEX, JOURNAL, NEXT_INDEX, Disk, framed, unframed
from keyhouse.journal.directory.load_result import mixed
from keyhouse.journal.store.protocol import EpochStart, StoreDamagedError

FORMAT_VERSION = 1  # the present format of the file
FILE_LIMIT = 16 * 1024 * 1024  # bytes
_LAYOUT = struct.Struct(">8sB16sQ")
_MAGIC = b"KEYHINDX"


class IndexFile(msgspec.Struct, frozen=True):
    """The fields of the file. They are not proven: an index may only cause a refusal."""

    store_id: bytes
    epoch: int
    content: bytes

    def encode(self) -> bytes:
        """Return the bytes of the file recovery_index."""
        header = _LAYOUT.pack(_MAGIC, FORMAT_VERSION, self.store_id, self.epoch)
        return framed(header + self.content)

    @classmethod
    def decode(cls, raw: bytes, *, name: str) -> "IndexFile":
        """Return the parts of the file recovery_index in ``raw``.

        Raises ``StoreDamagedError`` or ``StoreNewerError`` with the file's name.
        """

        def damaged() -> StoreDamagedError:
            hint = f"restore {name} from a backup"
            return StoreDamagedError(f"{name} is damaged", hint=hint)

        body = unframed(raw, _MAGIC, FORMAT_VERSION, name=name, damaged=damaged)
        if len(body) < _LAYOUT.size:
            raise damaged()
        _, _, store_id, epoch = _LAYOUT.unpack(body[: _LAYOUT.size])
        return cls(store_id, epoch, body[_LAYOUT.size :])


def read_index(disk: Disk, folder: Path, start: EpochStart) -> bytes:
    """Return the content of the recovery index in ``folder`` for the epoch ``start``.

    Raises ``StoreDamagedError`` for a missing index, and ``MixedDeploymentsError`` for the index of
    another store.
    """
    found: dict[str, IndexFile] = {}
    for name in (INDEX, NEXT_INDEX):
        raw = disk.read(folder / name, limit=FILE_LIMIT)
        if raw is not None:
            found[name] = IndexFile.decode(raw, name=name)
            if found[name].store_id != start.store_id:
                raise mixed(name, JOURNAL)
    if INDEX not in found:
        raise StoreDamagedError(
            "recovery_index is missing", hint="restore recovery_index from a backup"
        )
    for index in found.values():
        if index.epoch == start.epoch:
            return index.content
    raise StoreDamagedError(
        f"recovery_index belongs to epoch {found[INDEX].epoch}, journal.db is at epoch "
        f"{start.epoch}",
        hint="restore the state directory from one backup",
    )


def settle_index(disk: Disk, folder: Path, epoch: int) -> None:
    """Make the index of ``epoch`` the only index in ``folder``, and remove a second index.

    Call this function after an epoch began or failed to begin.
    """
    following = folder / NEXT_INDEX
    raw = disk.read(following, limit=FILE_LIMIT)
    if raw is None:
        return
    if IndexFile.decode(raw, name=NEXT_INDEX).epoch == epoch:
        disk.rename(following, folder / INDEX)
    else:
        disk.remove(following)
    disk.sync_directory(folder)
