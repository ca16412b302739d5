"""The file ``sealed_key``, as one platform reads and writes it."""

from collections.abc import Callable
from pathlib import Path

from keyhouse.base.secret import Secret
from keyhouse.journal.directory import sealing
from keyhouse.journal.directory.disk import Disk, off_loop
from keyhouse.journal.directory.found import WrongPlatformError
from keyhouse.journal.directory.layout import SEALED_KEY
from keyhouse.journal.directory.sealing import Contents, EpochKey, SealedKey
from keyhouse.journal.journal import NEWEST, RolledBackError
from keyhouse.journal.store.protocol import StoreDamagedError


class KeyFile:
    """Seals data keys for a platform, and unseals them there."""

    def __init__(
        self, folder: Path, disk: Disk, platform_kind: str, sealing_key: Callable[[str], Secret]
    ) -> None:
        """``sealing_key`` gives the platform's key for a policy; it is called in a thread."""
        self._path = folder / SEALED_KEY
        self._disk = disk
        self._platform_kind = platform_kind
        self._sealing_key = sealing_key

    async def read(self) -> SealedKey | None:
        """Return what the file holds, None if it is missing; raise ``WrongPlatformError``."""
        raw = await off_loop(self._disk.read, self._path, limit=sealing.FILE_LIMIT)
        if raw is None:
            return None
        sealed = sealing.parse(raw)
        if sealed.platform_kind != self._platform_kind:
            raise WrongPlatformError(
                f"sealed_key was made on the platform {sealed.platform_kind}, "
                f"this is {self._platform_kind}",
                hint="start Keyhouse on the platform that the state belongs to",
            )
        return sealed

    async def unseal(self, sealed: SealedKey) -> Contents:
        """Return the keys and the head in ``sealed``; raise ``SealedElsewhereError``."""
        sealing_key = await off_loop(self._sealing_key, sealed.policy)
        return sealing.unseal(sealed, sealing_key)

    async def seal(self, contents: Contents, store_id: bytes) -> bytes:
        """Return ``contents`` sealed under the policy of the last of its keys."""
        policy = contents.keys[-1].policy
        sealing_key = await off_loop(self._sealing_key, policy)
        return sealing.seal(
            contents,
            sealing_key=sealing_key,
            platform_kind=self._platform_kind,
            policy=policy,
            store_id=store_id,
        )

    async def write(self, contents: Contents, store_id: bytes) -> None:
        """Make the file hold ``contents``, durably, all or nothing."""
        raw = await self.seal(contents, store_id)
        await off_loop(self._disk.write, self._path, raw)


def key_of(contents: Contents, epoch: int) -> EpochKey:
    """Return the key of the journal's ``epoch``.

    Raise ``RolledBackError`` or ``StoreDamagedError``.
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
        hint="restore both from one backup, or remove sealed_key while Keyhouse is stopped to "
        "recover with the recovery keys",
    )
