"""The state directory: the journal, its sealed key, and the recovery index."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.journal.directory import replacement
from keyhouse.journal.directory.acquire import DirectoryLock, acquire, list_store_files
from keyhouse.journal.directory.disk import JOURNAL, SEALED_KEY, Disk, off_loop
from keyhouse.journal.directory.index_file import read_index
from keyhouse.journal.directory.inspect import see_tombstone
from keyhouse.journal.directory.journal_copy import make_own
from keyhouse.journal.directory.load_result import (
    Fresh,
    Locked,
    Opened,
    empty_journal,
    ended_but_there,
    missing_journal,
    mixed,
)
from keyhouse.journal.directory.log_files import DirectoryParts, LogFiles
from keyhouse.journal.directory.open_store import OpenStore, build_store
from keyhouse.journal.directory.sealing import (
    EpochKey,
    KeyFile,
    SealedElsewhereError,
    SealedKey,
    key_of,
)
from keyhouse.journal.directory.storage_base import NewStore, SerialStorage
from keyhouse.journal.directory.tombstone import Tombstone
from keyhouse.journal.journal import Journal
from keyhouse.journal.store.protocol import EpochStart, OutcomeUnknownError, Step, no_step
from keyhouse.journal.store.sqlite import SqliteStore


class DirectoryStorage(SerialStorage[OpenStore]):
    """A state directory, locked by this process. Calls wait for each other."""

    def __init__(
        self,
        path: Path,
        disk: Disk,
        lock: DirectoryLock,
        key_file: KeyFile,
        now: Callable[[], datetime],
        *,
        own: bool,
    ) -> None:
        """Store the arguments. Callers use ``open`` instead."""
        super().__init__()
        self._own = own  # no other process has the journal open
        self._path = path
        self._disk = disk
        self._lock = lock
        self._key_file = key_file
        self._now = now

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        platform_kind: str,
        sealing_key: Callable[[str], Secret],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        step: Step = no_step,
        shares_locks: bool = True,
    ) -> "DirectoryStorage":
        """Acquire ``path`` and complete interrupted changes. Creates a missing directory (0700).

        ``sealing_key`` returns the platform's key of at least 32 bytes for a seal mode
        (``ProductKey`` or ``UniqueKey``). It may block and is called in a thread. ``now`` returns
        the time for names of archived stores. ``step`` is called before each durable step.
        ``shares_locks``: other processes see the lock of this process. If False, the journal is
        replaced by a copy before the open, so that other processes cannot write to the journal.
        Raises ``StoreLockedError`` (which names the process), ``InsecureFileError``,
        ``StoreDamagedError``, or ``StoreUnreadableError``.
        """
        disk = Disk(step)
        lock = await off_loop(acquire, path, disk)
        key_file = KeyFile(path, disk, platform_kind, sealing_key)
        return cls(path, disk, lock, key_file, now, own=shares_locks)

    async def archive(self) -> None:
        """Move the present store to ``archive/``. Afterwards the directory has no store."""
        async with self._turn:
            self._require_replaceable()
            await self._close_store()
            await off_loop(self._prepare, clear=True)
            await self._succeed()

    async def destroy(self, time: int) -> None:
        """Erase the open store and its bytes. Afterwards only a tombstone is left.

        ``time``, for the tombstone, is in microseconds since 1970. After a crash there is the
        complete store, or a directory that the next start finishes erasing. Raises
        ``UnavailableError`` (the store is unchanged and still open) or ``OutcomeUnknownError`` (the
        store may have ended and must not be written; a restart completes or undoes the erasure).
        """
        async with self._turn:
            journal = self._require_sealed().journal
            tombstone = Tombstone(journal.store_id, journal.position, time)
            try:
                await off_loop(replacement.prepare_end, self._disk, self._path, tombstone.encode())
            except BaseException:
                with suppress(KeyhouseError):
                    await off_loop(replacement.abandon, self._disk, self._path)
                raise
            await self._commit()
            try:
                await self._close_store()
                await off_loop(replacement.finish, self._disk, self._path)
            except KeyhouseError:
                raise _not_erased() from None

    def log_parts(self, name: str) -> DirectoryParts:
        """Return the files of the transparency log ``name`` in this directory."""
        return DirectoryParts(LogFiles(self._path, name, self._disk))

    async def _release(self) -> None:
        self._lock.release()

    async def _establish(self, new: NewStore) -> Journal:
        """Return the durable journal of the new store ``new``. Remove a tombstone.

        An old store (in recovery mode) is moved to ``archive/``. After a crash, the old store or
        the new store is complete.
        """
        place = await off_loop(self._prepare, clear=False)
        try:
            await build_store(place, self._disk, self._key_file, new)
        except BaseException:
            with suppress(KeyhouseError):
                await off_loop(replacement.abandon, self._disk, self._path)
            raise
        opened = await self._succeed()
        if not isinstance(opened, Opened):
            raise _unknown_replacement()
        return opened.journal

    async def _recover(self, dek: Secret) -> Opened:
        store, start = await self._open_store()
        try:
            journal, replay = await Journal.open(store, store_id=start.store_id, dek=dek)
            index = await off_loop(read_index, self._disk, self._path, start)
        except BaseException:
            await store.close()
            raise
        self._hold(store, journal, EpochKey(start.epoch, "", dek), index)
        return Opened(journal, replay, "", index)

    async def _load(self) -> Fresh | Locked | Opened:
        found = await off_loop(self._find_store)
        if isinstance(found, Fresh):
            return found
        store, start = await self._open_store()
        try:
            opened = await self._open_journal(store, start, found)
        except BaseException:
            self._held = None
            await store.close()
            raise
        if isinstance(opened, Locked):
            await store.close()
        return opened

    def _find_store(self) -> Fresh | SealedKey | None:
        """Return the sealed key of the store, or None if the file of the key is missing.

        Return ``Fresh`` if the directory has no store.
        """
        present = list_store_files(self._path, self._disk)
        ended = see_tombstone(self._path)
        if not present:
            return Fresh(ended)
        if ended is not None:
            raise ended_but_there(ended, present[0])
        if JOURNAL not in present:
            raise missing_journal(present[0])
        return self._key_file.read()

    async def _open_journal(
        self, store: SqliteStore, start: EpochStart, sealed: SealedKey | None
    ) -> Locked | Opened:
        if sealed is not None and sealed.store_id != start.store_id:
            raise mixed(SEALED_KEY, JOURNAL)
        index = await off_loop(read_index, self._disk, self._path, start)
        if sealed is None:
            return Locked("sealed_key is missing", start.store_id, start.epoch, index)
        try:
            contents = await self._key_file.unseal(sealed)
        except SealedElsewhereError as exc:
            return Locked(exc.message, start.store_id, start.epoch, index)
        key = key_of(contents, start.epoch)
        vouched = await self._key_file.vouched(sealed, contents, key)
        journal, replay = await Journal.open(
            store, store_id=start.store_id, dek=key.dek, at_least=contents.head
        )
        held = self._hold(store, journal, key, index)
        # A full disk must not prevent a start. ``write_head`` repeats a step that fails now.
        with suppress(UnavailableError):
            await held.settle_index()
            held.is_due = len(contents.keys) > 1
        return Opened(journal, replay, key.policy, index, vouched)

    async def _open_store(self) -> tuple[SqliteStore, EpochStart]:
        journal = self._path / JOURNAL
        # Because opening would write a schema into an empty file.
        await off_loop(self._require_content, journal)
        if not self._own:
            await make_own(self._disk, self._path)
            self._own = True
        store = await SqliteStore.open(journal, step=self._disk.step, fence=self._disk.fence)
        try:
            return store, await _start_of(store)
        except BaseException:
            await store.close()
            raise

    def _require_content(self, journal: Path) -> None:
        if not self._disk.check_file(journal):
            raise empty_journal("missing")
        if journal.stat().st_size == 0:
            raise empty_journal()

    def _hold(self, store: SqliteStore, journal: Journal, key: EpochKey, index: bytes) -> OpenStore:
        self._held = OpenStore(
            self._path,
            self._disk,
            self._key_file,
            store=store,
            journal=journal,
            key=key,
            index=index,
        )
        return self._held

    async def _close_store(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            await held.close()

    def _prepare(self, *, clear: bool) -> Path:
        replacement.finish(self._disk, self._path)
        name = replacement.archive_name(self._disk, self._path, self._now().astimezone(UTC))
        return replacement.prepare(self._disk, self._path, name, clear=clear)

    async def _succeed(self) -> Fresh | Locked | Opened:
        """Commit the prepared replacement of the store, carry it out, and load the new store."""
        await self._commit()
        try:
            return await self._load()
        except KeyhouseError:
            raise _unknown_replacement() from None

    async def _commit(self) -> None:
        """Commit the prepared replacement.

        ``OutcomeUnknownError``: the commit may have happened.
        """
        try:
            await off_loop(replacement.commit, self._disk, self._path)
        except KeyhouseError:
            if replacement.is_committed(self._path):
                raise _unknown_replacement() from None
            with suppress(KeyhouseError):
                await off_loop(replacement.abandon, self._disk, self._path)
            raise


async def _start_of(store: SqliteStore) -> EpochStart:
    start = await store.start()
    if start is None:
        raise empty_journal()
    return start


def _not_erased() -> OutcomeUnknownError:
    return OutcomeUnknownError(
        "the store has ended, but not all of it could be erased",
        hint="check the disk of the state directory, then restart Keyhouse to erase the rest",
    )


def _unknown_replacement() -> OutcomeUnknownError:
    return OutcomeUnknownError(
        "the new store may or may not have replaced the previous store",
        hint="restart Keyhouse, which finishes or undoes the replacement",
    )
