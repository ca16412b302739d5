"""The state directory: the journal, the sealed key that opens it, the recovery index."""

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from keyhouse.journal import sealing, succession
from keyhouse.journal.chain import Position
from keyhouse.journal.directory import enter, survey
from keyhouse.journal.disk import Disk
from keyhouse.journal.index_file import FILE_LIMIT, IndexFile
from keyhouse.journal.journal import Journal, RolledBack, StoreEmpty
from keyhouse.journal.lock import DirectoryLock
from keyhouse.journal.off_loop import off_loop
from keyhouse.journal.replay import Replay
from keyhouse.journal.sealing import Contents, EpochKey, SealedElsewhere, SealedKey
from keyhouse.journal.sqlite import SqliteStore
from keyhouse.journal.store import (
    EpochStart,
    OutcomeUnknown,
    Step,
    StoreDamaged,
    StoreUnreadable,
    no_step,
)
from keyhouse.journal.succession import INDEX, JOURNAL, NEXT_INDEX, SEALED_KEY
from keyhouse.journal.tombstone import FILE_LIMIT as TOMBSTONE_LIMIT
from keyhouse.journal.tombstone import TOMBSTONE, Tombstone
from keyhouse.wire.errors import Broken, KeyhouseError, Unavailable
from keyhouse.wire.secret import Secret

__all__ = ["Fresh", "Home", "Locked", "MixedDeployments", "Opened", "StoreEnded", "WrongPlatform"]


class WrongPlatform(Broken):
    """The state belongs to another kind of platform than the one that runs."""

    code = "wrong-platform"


class MixedDeployments(StoreDamaged):
    """Two files in the state directory belong to different deployments."""

    code = "mixed-deployments"


class StoreEnded(Broken):
    """Files of a store lie where a tombstone says that it was erased."""

    code = "store-ended"


class Fresh(msgspec.Struct, frozen=True):
    """There is nothing: no manifest was ever answered, or none whose state is kept on the disk.

    ``ended`` tells of a store that was erased because its deployment was to keep nothing here.
    """

    ended: Tombstone | None = None


class Locked(msgspec.Struct, frozen=True):
    """There is a journal, and this platform cannot open it: recovery mode.

    ``recovery_index`` is what was last kept for the journal's epoch, empty if there is none.
    Neither it nor ``store_id`` and ``epoch`` are proven.
    """

    reason: str
    store_id: bytes
    epoch: int
    recovery_index: bytes


class Opened(msgspec.Struct, frozen=True):
    """The journal is open and everything in it verified. ``policy`` is empty while recovering."""

    journal: Journal
    replay: Replay
    policy: str
    recovery_index: bytes


class Home:
    """A state directory, held by this process. One caller at a time; calls wait for each other."""

    def __init__(
        self,
        path: Path,
        disk: Disk,
        lock: DirectoryLock,
        *,
        platform_kind: str,
        sealing_key: Callable[[str], Secret],
        now: Callable[[], datetime],
    ) -> None:
        """Use ``open``."""
        self._path = path
        self._disk = disk
        self._lock = lock
        self._platform_kind = platform_kind
        self._sealing_key = sealing_key
        self._now = now
        self._turn = asyncio.Lock()
        self._store: SqliteStore | None = None
        self._journal: Journal | None = None
        # The key of the journal's epoch. Its policy is empty between ``recover`` and ``reseal``.
        self._key: EpochKey | None = None
        self._index = b""
        self._closed = False

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        platform_kind: str,
        sealing_key: Callable[[str], Secret],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        step: Step = no_step,
    ) -> "Home":
        """Take ``path``, which is made (0700) if missing, and finish what a crash interrupted.

        ``sealing_key`` gives the platform's key of at least 32 bytes for a policy (``ProductKey``
        or ``UniqueKey``); it may block and is called in a thread. Raises ``StoreLocked`` (another
        process, named), ``InsecureFile``, ``StoreDamaged``, or ``StoreUnreadable``.
        """
        disk = Disk(step)
        lock = await off_loop(enter, path, disk)
        return cls(path, disk, lock, platform_kind=platform_kind, sealing_key=sealing_key, now=now)

    async def load(self) -> Fresh | Locked | Opened:
        """Look at what is there. May be called again: it then reads everything anew.

        What is neither whole nor plainly absent is refused by name: ``StoreDamaged``,
        ``StoreNewer``, ``StoreEmpty``, ``StoreEnded``, ``RolledBack``, ``WrongPlatform``,
        ``MixedDeployments``, ``InsecureFile``.
        """
        async with self._turn:
            return await self._load()

    async def establish(
        self,
        *,
        store_id: bytes,
        dek: Secret,
        base: Iterable[bytes],
        policy: str,
        recovery_index: bytes = b"",
        after: Position | None = None,
    ) -> Journal:
        """Return the journal of a new store, which holds ``base`` and is durable.

        ``store_id`` has 16 fresh random bytes; with ``after``, they are those of the journal that
        stood there in memory, which goes on here.
        What was there (in recovery mode) has moved to ``archive/``; a tombstone is gone. A crash
        leaves the old or the new store, whole. Refused while a store is open and sealed.
        ``Unavailable``: nothing has happened. ``OutcomeUnknown`` means that ``load`` has to tell
        which of the two is there.
        """
        async with self._turn:
            self._require_replaceable()
            await self._close_store()
            place = await off_loop(self._prepare, clear=False)
            try:
                await self._build(place, store_id, dek, base, policy, recovery_index, after)
            except BaseException:
                with suppress(KeyhouseError):
                    await off_loop(self._disk.remove_directory, place)
                raise
            opened = await self._succeed()
            if not isinstance(opened, Opened):
                raise _unknown_succession()
            return opened.journal

    async def archive(self) -> None:
        """Move the present store to ``archive/``; the directory is fresh when this returns."""
        async with self._turn:
            self._require_replaceable()
            await self._close_store()
            await off_loop(self._prepare, clear=True)
            await self._succeed()

    async def destroy(self) -> None:
        """Erase the open store, bytes and all; only a tombstone is left when this returns.

        A crash leaves the store, whole, or a directory that the next start finishes to erase.
        Raises ``Unavailable`` (the store is as it was and still open) or ``OutcomeUnknown`` (it has
        ended, or may have, and is no longer to be written; a restart settles it).
        """
        async with self._turn:
            journal, _ = self._require_sealed()
            tombstone = Tombstone(journal.store_id, journal.position, _microseconds(self._now()))
            try:
                await off_loop(succession.prepare_end, self._disk, self._path, tombstone.encode())
            except BaseException:
                with suppress(KeyhouseError):
                    await off_loop(succession.abandon, self._disk, self._path)
                raise
            await self._commit()
            try:
                await self._close_store()
                await off_loop(succession.finish, self._disk, self._path)
            except KeyhouseError:
                raise _not_erased() from None

    async def recover(self, dek: Secret) -> Opened:
        """Open a locked store with a recovered data key. Nothing is written or sealed yet.

        Raises ``WrongKey`` if the key is not the journal's. Once everything recovered has been
        checked against the manifest in the journal, call ``reseal``.
        """
        async with self._turn:
            self._require_replaceable()
            await self._close_store()
            store, start = await self._open_store()
            try:
                journal, replay = await Journal.open(store, store_id=start.store_id, dek=dek)
                index = await off_loop(self._read_index, start)
            except BaseException:
                await self._close_store()
                raise
            self._journal, self._index = journal, index
            self._key = EpochKey(start.epoch, "", dek)
            return Opened(journal, replay, "", index)

    async def reseal(self, policy: str) -> None:
        """Seal a recovered key for this platform: the next start opens the store by itself."""
        async with self._turn:
            journal, key = self._require_open()
            key = msgspec.structs.replace(key, policy=policy)
            await self._write_key((key,), journal.position)
            self._key = key
            # The key is sealed, which must not be told as a failure; ``write_head`` settles it too.
            with suppress(Unavailable):
                await off_loop(self._settle_index, key.epoch)

    async def relock(self) -> None:
        """Close what ``recover`` opened and nothing sealed; the files stay as they are."""
        async with self._turn:
            self._require_replaceable()
            await self._close_store()

    async def begin_epoch(
        self,
        base: Iterable[bytes],
        *,
        dek: Secret | None = None,
        policy: str | None = None,
        recovery_index: bytes | None = None,
    ) -> Position:
        """Return once ``base`` has replaced everything; None leaves key, policy or index as is.

        The sealed key holds both data keys before the commit, so that a crash at any moment leaves
        a journal and a key that opens it. Errors as for ``Journal.append``.
        """
        async with self._turn:
            journal, present = self._require_sealed()
            following = EpochKey(
                present.epoch + 1, policy or present.policy, present.dek if dek is None else dek
            )
            index = self._index if recovery_index is None else recovery_index
            await self._announce(journal, present, following, index)
            try:
                position = await journal.begin_epoch(base, dek=dek)
            except Exception:
                # While it is unknown whether the epoch began, both keys stay: the next load asks
                # the journal which one counts.
                if journal.settled:
                    with suppress(KeyhouseError):
                        await self._withdraw(journal, present)
                raise
            self._key, self._index = following, index
            # The epoch has begun, which must not be told as a failure. What cannot be cleaned up
            # now is harmless, and the next ``write_head`` or ``load`` does it.
            with suppress(Unavailable):
                await self._write_head()
            return position

    async def write_head(self) -> None:
        """Seal where the journal is: a journal that ends before this is refused at later starts."""
        async with self._turn:
            self._require_sealed()
            await self._write_head()

    async def close(self) -> None:
        """Release store and directory. Call ``write_head`` before at a clean stop."""
        async with self._turn:
            await self._close_store()
            if not self._closed:
                self._closed = True
                self._lock.release()

    async def _load(self) -> Fresh | Locked | Opened:
        await self._close_store()
        present = await off_loop(survey, self._path, self._disk)
        ended = await off_loop(self._read_tombstone)
        if not present:
            return Fresh(ended)
        if ended is not None:
            raise StoreEnded(
                f"{ended}, but {present[0]} is there",
                hint="it is an older copy: move it away; to go on from it on purpose, remove "
                f"{TOMBSTONE} while Keyhouse is stopped",
            )
        if JOURNAL not in present:
            raise StoreEmpty(
                f"{present[0]} is there but journal.db is missing: a manifest was set before",
                hint="restore the state directory from a backup; to give up what it held, move "
                "the directory away",
            )
        sealed = await off_loop(self._read_sealed_key)
        store, start = await self._open_store()
        try:
            return await self._open_journal(store, start, sealed)
        except BaseException:
            await self._close_store()
            raise

    async def _open_journal(
        self, store: SqliteStore, start: EpochStart, sealed: SealedKey | None
    ) -> Locked | Opened:
        if sealed is not None and sealed.store_id != start.store_id:
            raise _mixed(SEALED_KEY, JOURNAL)
        index = await off_loop(self._read_index, start)
        if sealed is None:
            return await self._locked("sealed_key is missing", start, index)
        sealing_key = await off_loop(self._sealing_key, sealed.policy)
        try:
            contents = sealing.unseal(sealed, sealing_key)
        except SealedElsewhere as exc:
            return await self._locked(exc.message, start, index)
        key = _key_of(contents, start.epoch)
        journal, replay = await Journal.open(
            store, store_id=start.store_id, dek=key.dek, at_least=contents.head
        )
        self._journal, self._key, self._index = journal, key, index
        # A full disk stops no start: what cannot be settled now is settled by ``write_head``.
        with suppress(Unavailable):
            await off_loop(self._settle_index, key.epoch)
            if len(contents.keys) > 1:
                await self._write_head()
        return Opened(journal, replay, key.policy, index)

    async def _locked(self, reason: str, start: EpochStart, index: bytes) -> Locked:
        await self._close_store()
        return Locked(reason, start.store_id, start.epoch, index)

    async def _open_store(self) -> tuple[SqliteStore, EpochStart]:
        journal = self._path / JOURNAL
        if await off_loop(_is_empty, journal):  # opening would write a schema into it
            raise _empty_journal()
        self._store = await SqliteStore.open(journal, step=self._disk.step)
        start = (await self._store.read(0)).start
        if start is None:
            await self._close_store()
            raise _empty_journal()
        return self._store, start

    async def _close_store(self) -> None:
        store, self._store = self._store, None
        self._journal = self._key = None
        self._index = b""
        if store is not None:
            await store.close()

    def _read_tombstone(self) -> Tombstone | None:
        raw = self._disk.read(self._path / TOMBSTONE, limit=TOMBSTONE_LIMIT)
        return None if raw is None else Tombstone.decode(raw)

    def _read_sealed_key(self) -> SealedKey | None:
        raw = self._disk.read(self._path / SEALED_KEY, limit=sealing.FILE_LIMIT)
        if raw is None:
            return None
        sealed = sealing.parse(raw)
        if sealed.platform_kind != self._platform_kind:
            raise WrongPlatform(
                f"sealed_key was made on the platform {sealed.platform_kind}, "
                f"this is {self._platform_kind}",
                hint="start Keyhouse on the platform that the state belongs to",
            )
        return sealed

    def _read_index(self, start: EpochStart) -> bytes:
        """Return the index of the journal's epoch."""
        found: dict[str, IndexFile] = {}
        for name in (INDEX, NEXT_INDEX):
            raw = self._disk.read(self._path / name, limit=FILE_LIMIT)
            if raw is not None:
                found[name] = IndexFile.decode(raw, name=name)
                if found[name].store_id != start.store_id:
                    raise _mixed(name, JOURNAL)
        if INDEX not in found:
            raise StoreDamaged("recovery_index is missing", hint="restore it from a backup")
        for index in found.values():
            if index.epoch == start.epoch:
                return index.content
        raise StoreDamaged(
            f"recovery_index belongs to epoch {found[INDEX].epoch}, journal.db is at epoch "
            f"{start.epoch}",
            hint="restore the state directory from one backup",
        )

    def _settle_index(self, epoch: int) -> None:
        """Keep the index of ``epoch`` only. ``_read_index`` has checked both."""
        succession.settle_index(self._disk, self._path, epoch)

    async def _announce(
        self, journal: Journal, present: EpochKey, following: EpochKey, index: bytes
    ) -> None:
        """Make the next epoch's key and index durable beside the present ones."""
        raw = IndexFile(journal.store_id, following.epoch, index).encode()
        try:
            await off_loop(self._disk.write, self._path / NEXT_INDEX, raw)
            await self._write_key((present, following), journal.position)
        except Exception:
            with suppress(KeyhouseError):
                await self._withdraw(journal, present)
            raise

    async def _withdraw(self, journal: Journal, present: EpochKey) -> None:
        await self._write_key((present,), journal.position)
        await off_loop(self._settle_index, present.epoch)

    async def _write_head(self) -> None:
        journal, key = self._require_open()
        await off_loop(self._settle_index, key.epoch)
        await self._write_key((key,), journal.position)

    async def _write_key(self, keys: tuple[EpochKey, ...], head: Position) -> None:
        """Write ``sealed_key`` under the policy of the last of ``keys``."""
        journal, _ = self._require_open()
        raw = await self._seal(Contents(keys, head), journal.store_id)
        await off_loop(self._disk.write, self._path / SEALED_KEY, raw)

    async def _seal(self, contents: Contents, store_id: bytes) -> bytes:
        policy = contents.keys[-1].policy
        sealing_key = await off_loop(self._sealing_key, policy)
        return sealing.seal(
            contents,
            sealing_key=sealing_key,
            platform_kind=self._platform_kind,
            policy=policy,
            store_id=store_id,
        )

    def _prepare(self, *, clear: bool) -> Path:
        succession.finish(self._disk, self._path)
        name = succession.archive_name(self._disk, self._path, self._now().astimezone(UTC))
        return succession.prepare(self._disk, self._path, name, clear=clear)

    async def _build(
        self,
        place: Path,
        store_id: bytes,
        dek: Secret,
        base: Iterable[bytes],
        policy: str,
        index: bytes,
        after: Position | None,
    ) -> None:
        """Make a whole store in ``place``, everything synced, no WAL left."""
        store = await SqliteStore.open(place / JOURNAL, step=self._disk.step)
        try:
            journal = await Journal.create(
                store, store_id=store_id, dek=dek, base=base, after=after
            )
        finally:
            await store.close()
        position = journal.position
        raw = await self._seal(
            Contents((EpochKey(position.epoch, policy, dek),), position), store_id
        )

        def write() -> None:
            if os.path.lexists(place / f"{JOURNAL}-wal"):
                raise StoreUnreadable("journal.db could not be completed", hint="see its disk")
            self._disk.sync_file(place / JOURNAL)
            index_file = IndexFile(store_id, position.epoch, index)
            self._disk.write(place / INDEX, index_file.encode())
            self._disk.write(place / SEALED_KEY, raw)

        await off_loop(write)

    async def _succeed(self) -> Fresh | Locked | Opened:
        """Commit what was prepared and carry it out."""
        await self._commit()
        try:
            return await self._load()
        except KeyhouseError:
            raise _unknown_succession() from None

    async def _commit(self) -> None:
        """Commit what was prepared; raise what says that surely nothing of it happened."""
        try:
            await off_loop(succession.commit, self._disk, self._path)
        except KeyhouseError:
            if succession.is_committed(self._path):
                raise _unknown_succession() from None
            with suppress(KeyhouseError):
                await off_loop(succession.abandon, self._disk, self._path)
            raise

    def _require_replaceable(self) -> None:
        if self._key is not None and self._key.policy:
            raise Broken("the store is open: it cannot be replaced or recovered")

    def _require_open(self) -> tuple[Journal, EpochKey]:
        if self._journal is None or self._key is None:
            raise Broken("the store is not open")
        return self._journal, self._key

    def _require_sealed(self) -> tuple[Journal, EpochKey]:
        journal, key = self._require_open()
        if not key.policy:
            raise Broken("the store was recovered and has not been sealed yet")
        return journal, key


def _is_empty(path: Path) -> bool:
    return path.stat().st_size == 0


def _empty_journal() -> StoreEmpty:
    return StoreEmpty(
        "journal.db is empty, but a manifest was set before",
        hint="restore the state directory from a backup; to give up what it held, move "
        "the directory away",
    )


def _key_of(contents: Contents, epoch: int) -> EpochKey:
    key = contents.key_of(epoch)
    if key is not None:
        return key
    if all(known.epoch > epoch for known in contents.keys):
        raise RolledBack(
            f"journal.db is at epoch {epoch}, sealed_key at epoch {contents.keys[0].epoch}: "
            "the journal was rolled back",
            hint="restore the newest state directory, or recover from a backup",
        )
    raise StoreDamaged(
        f"sealed_key is at epoch {contents.keys[0].epoch}, journal.db at epoch {epoch}: "
        "sealed_key is an old copy",
        hint="restore both from one backup, or remove sealed_key while Keyhouse is stopped to "
        "recover with the recovery keys",
    )


def _mixed(first: str, second: str) -> MixedDeployments:
    return MixedDeployments(
        f"{first} and {second} belong to different deployments",
        hint="restore the state directory from one backup",
    )


def _microseconds(now: datetime) -> int:
    return int(now.timestamp() * 1_000_000)


def _not_erased() -> OutcomeUnknown:
    return OutcomeUnknown(
        "the store has ended, but not all of it could be erased",
        hint="look at the disk of the state directory; a restart erases the rest",
    )


def _unknown_succession() -> OutcomeUnknown:
    return OutcomeUnknown(
        "the new store may or may not have taken its place",
        hint="restart Keyhouse: it finishes or undoes what was begun",
    )
