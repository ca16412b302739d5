"""Store a state shared by several coordinators: journal in PostgreSQL, sealed keys per machine.

A database can have several stores. The row ``current`` names the served store. The row changes only
by comparison with its old value. So if two replicas set a first manifest at once, only one of them
succeeds. The second replica raises ``SupersededError`` and has to start again.

A claim is an advisory lock of the database. Claims only keep replicas from serving different roots
before the row changes. Before the first manifest, only the holder of the claim ``FIRST_MANIFEST``
serves. Among replicas that cannot open the store, only the holder of the claim ``RECOVERY`` serves,
in recovery mode. No check of the state relies on a claim.

A replica has three ways to the data key. Its machine has sealed the key, a serving replica hands
the key over (``Join``), or holders of recovery keys recover it.
"""

import asyncio
import hmac
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from keyhouse.base.errors import BrokenError, KeyhouseError, UnavailableError
from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.journal.chain import key_check
from keyhouse.journal.directory.acquire import DirectoryLock, acquire, require_no_state
from keyhouse.journal.directory.disk import Disk, off_loop
from keyhouse.journal.directory.load_result import Fresh, Locked, Opened, Vouched
from keyhouse.journal.directory.sealing import Contents, EpochKey, KeyFile
from keyhouse.journal.directory.storage_base import NewStore, SerialStorage
from keyhouse.journal.epoch_reader import StoreEmptyError, require_link
from keyhouse.journal.journal import Journal
from keyhouse.journal.shared.key_request import Join
from keyhouse.journal.shared.log_parts import DatabaseParts
from keyhouse.journal.shared.open_store import (
    MachineKeys,
    NoMachineKeys,
    OpenSharedStore,
    SealedKeys,
    Unsealed,
)
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import (
    Beside,
    EpochStart,
    Note,
    Position,
    StoreConflictError,
    SupersededError,
    first_link,
)

ALONE_FOR: Final = 3.0
"""Seconds without another serving replica before a replica may begin recovery mode.

Another replica may be starting during this time.
"""

ASK_FOR: Final = 30.0
"""Seconds for which serving replicas are asked for the data key before recovery mode begins."""

# The numbers of the locks derive from these words. Replicas of several versions compare the
# numbers, so the words never change.
FIRST_MANIFEST: Final = "founder"
RECOVERY: Final = "desk"

_EVERY = 1.0  # seconds between two polls of a waiting replica, chosen
_ASKS = 5  # requests, about a second each, for acknowledgements that the own seal lacks
_ATTEMPTS = 8  # attempts to read a state that changes during the read, chosen


class DatabaseStorage(SerialStorage[OpenSharedStore]):
    """A state in a database, and the directory of this process. Calls run in sequence."""

    def __init__(self, database: PostgresDatabase, keys: SealedKeys, lock: DirectoryLock) -> None:
        """Store the arguments. Callers use ``open`` instead."""
        super().__init__()
        self._database = database
        self._keys = keys
        self._lock = lock
        self._store: PostgresStore | None = None
        self._serving: bytes | None = None  # the current store at the last read
        self._known: Position | None = None  # the highest place that this machine has sealed
        self._join: Join | None = None
        self.refusal = ""  # the reason why the last offered key is not used

    @classmethod
    async def open(
        cls,
        url: Secret,
        path: Path,
        *,
        platform_kind: str,
        sealing_key: Callable[[str], Secret] | None,
    ) -> "DatabaseStorage":
        """Acquire the directory ``path`` and reach the database at ``url``.

        ``sealing_key`` is as for ``DirectoryStorage``; None on a platform that cannot seal. Errors
        as for ``DirectoryStorage``, and ``BrokenError`` if the directory holds another state.
        """
        disk = Disk()
        lock = await off_loop(acquire, path, disk)
        try:
            await off_loop(require_no_state, path)
            database = PostgresDatabase(url)
            keys = None
            if sealing_key is not None:
                file = KeyFile(path, disk, platform_kind, sealing_key)
                keys = MachineKeys(database, file, sealing_key)
            storage = cls(database, keys or NoMachineKeys(), lock)
            await database.current()
        except BaseException:
            lock.release()
            raise
        return storage

    def set_join(self, join: Join | None) -> None:
        """Request the data key from serving replicas by ``join`` from now on; None: never."""
        self._join = join

    async def is_offered_a_key(self) -> bool:
        """Return whether serving replicas offer the data key, which this machine does not have.

        The method opens no store with an offered key. If True, the process must start again: the
        start requests the key and opens the store. Raises ``UnavailableError``.
        """
        if self._join is None or not await self._database.others_present():
            return False
        return await self._join.offered(await self._current(), self._known) is not None

    async def announce_presence(self) -> None:
        """Show to all replicas that this replica serves. Raises ``UnavailableError``."""
        await self._database.announce_presence()

    async def others_present(self) -> bool:
        """Return whether another replica serves. Raises ``UnavailableError``."""
        return await self._database.others_present()

    async def archive(self) -> None:
        """Refuse: a shared state is never archived."""
        raise _only_in_memory()

    async def destroy(self, time: int) -> None:
        """Refuse: a shared state is never erased."""
        del time
        raise _only_in_memory()

    async def notes(self, kind: str, names: Sequence[bytes] | None = None) -> tuple[Note, ...]:
        """Return the notes of ``kind`` for replicas of the served store, as ``Notes.notes``.

        With ``names``, return only notes with these names.
        """
        return await self._database.notes(await self._current(), kind, names)

    async def put_note(self, note: Note) -> None:
        """Store ``note`` in the database, for the replicas of the served store."""
        await self._database.put_note(await self._current(), note)

    def log_parts(self, name: str) -> DatabaseParts:
        """Return the parts of the transparency log ``name`` in the database."""
        return DatabaseParts(self._database, name)

    async def _load(self) -> Fresh | Locked | Opened:
        """Return the content of the database, once this replica may serve it.

        If there is no store, or if this machine cannot open the store, this replica has to claim
        ``FIRST_MANIFEST`` or ``RECOVERY`` first. While another replica holds the claim, this call
        polls every second. Each fault of an incomplete store has its own error.

        If this machine cannot open the store while a replica serves, the call first requests the
        data key (``set_join``) for ``ASK_FOR`` seconds. After that time, the requests continue
        while another replica holds ``RECOVERY``.
        """
        loop = asyncio.get_running_loop()
        logged, asks, began = "", False, loop.time()
        while True:
            found, claim = await self._read_state()
            if isinstance(found, Opened) and self._join is not None:
                found = await self._vouched_by_others(found, self._join)
                claim = RECOVERY if isinstance(found, Locked) else None
            if isinstance(found, Locked) and self._join is not None:
                others = await self._database.others_present()
                if others and not asks:
                    log.info(_ASKING, reason=found.reason, seconds=ASK_FOR)
                    asks = True
                if others and (opened := await self._opened_by(found, self._join)) is not None:
                    return opened
                if loop.time() - began < (ASK_FOR if others else ALONE_FOR):
                    await asyncio.sleep(0 if others else _EVERY)
                    continue
            if claim is None or await self._database.claim(claim):
                if claim != FIRST_MANIFEST or await self._database.current() is None:
                    return found
                continue  # another replica has set the first manifest since the read
            if logged != claim:
                log.warning(_WAITING[claim])
                logged = claim
            await asyncio.sleep(_EVERY)

    async def _establish(self, new: NewStore) -> Journal:
        """Return the durable journal of the new store ``new``. In recovery mode, the former ends.

        Raises ``SupersededError`` if another replica was first: this replica then has to start
        again.
        """
        if new.after is not None:
            raise _only_in_memory()
        key = EpochKey(1, new.policy, new.dek, new.line)
        contents = Contents((key,), Position(0, 0, first_link(new.store_id)))
        beside = Beside(new.recovery_index, await self._keys.rows(contents, new.store_id))
        store = await self._opened_store(new.store_id)
        journal = await Journal.create(
            store, store_id=new.store_id, dek=new.dek, base=new.base, beside=beside
        )
        try:
            await self._database.make_current(new.store_id, before=self._serving)
        except StoreConflictError:
            raise SupersededError(
                "another coordinator has set a manifest in this database first",
                hint="restart this coordinator, so that it joins the other coordinator",
            ) from None
        self._serving = new.store_id
        self._held = OpenSharedStore(
            journal, self._keys, policy=new.policy, index=new.recovery_index
        )
        self._held.line = new.line
        await self._seal_key()
        return journal

    async def _recover(self, dek: Secret) -> Opened:
        store_id = await self._current()
        start, index = await self._start_of(await self._opened_store(store_id))
        return await self._hold(start, dek, None, policy="", index=index)

    async def _release(self) -> None:
        await self._database.close()
        self._lock.release()

    async def _read_state(self) -> tuple[Fresh | Locked | Opened, str | None]:
        """Return the stored state, and the claim that is needed before the state is served."""
        self._serving = await self._database.current()
        if self._serving is None:
            if await self._keys.has_file():
                raise StoreEmptyError(
                    "sealed_key exists but the database has no store: a manifest was set before",
                    hint="give the right --store or --data-dir, or restore the database",
                )
            return Fresh(), FIRST_MANIFEST
        for _ in range(_ATTEMPTS):
            try:
                found = await self._open(self._serving)
            except StoreConflictError:  # another replica began an epoch during the read
                await self._close_store()
            else:
                return found, RECOVERY if isinstance(found, Locked) else None
        raise UnavailableError("the database changes faster than it can be read", hint="try again")

    async def _opened_by(self, locked: Locked, join: Join) -> Opened | None:
        """Return the store if a replica's data key opens the store, and ``join`` accepts it.

        ``join`` requests the data key from serving replicas. None: no usable key arrived. The host
        may have invented an offered key. So no offer may end this process: the caller requests the
        key again.
        """
        offer = await join.offered(locked.store_id, self._known)
        if offer is None:
            return None
        try:
            start, index = await self._start_of(await self._opened_store(locked.store_id))
            require_link(start, self._known)
            opened = await self._hold(start, offer.dek, offer.place, policy="", index=index)
            vouched = await join.accept(opened)
        except KeyhouseError as error:
            if str(error) != self.refusal:  # serving replicas repeat the offer twice a second
                log.warning("the data key that was handed over is not used", reason=str(error))
            self.refusal = str(error)
        except Exception as error:  # noqa: BLE001 data of the host may fail anywhere
            log.warning("the check of an offered data key failed", error=type(error).__qualname__)
        else:
            return msgspec.structs.replace(opened, vouched=vouched)
        await self._close_store()
        return None

    async def _vouched_by_others(self, opened: Opened, join: Join) -> Locked | Opened:
        """Return the store, opened with the data key and the statement of a serving replica.

        ``opened``: the store, opened with the sealed key of this machine. Replicas may have
        accepted acknowledgements of an update while this machine was stopped. A statement of a
        replica proves these acknowledgements, and the sealed key does not. If replicas cannot prove
        more, or if no replica sends a usable key, the method returns the store as opened with the
        sealed key.
        """
        assert self._serving is not None  # noqa: S101 it was just opened
        if not (await join.is_better(opened) and await self._database.others_present()):
            return opened
        epoch, index = opened.journal.position.epoch, opened.recovery_index
        locked = Locked("votes behind the sealed place", self._serving, epoch, index)
        await self._close_store()
        for _ in range(_ASKS):
            if (vouched := await self._opened_by(locked, join)) is not None:
                return vouched
        return await self._open(self._serving)

    async def _open(self, store_id: bytes) -> Locked | Opened:
        start, index = await self._start_of(await self._opened_store(store_id))
        seals = await self._keys.read(store_id)
        found = _key_of(seals, start)
        self._known = max((each.contents.head for each in seals), key=_order, default=None)
        if found is None:
            await self._close_store()
            reason = (
                "the data key was changed after this machine sealed it"
                if seals
                else "no data key was sealed by this machine and code"
            )
            return Locked(reason, store_id, start.epoch, index)
        key, vouched = found
        opened = await self._hold(start, key.dek, self._known, policy=key.policy, index=index)
        return msgspec.structs.replace(opened, vouched=vouched)

    async def _hold(
        self, start: EpochStart, dek: Secret, newest: Position | None, *, policy: str, index: bytes
    ) -> Opened:
        assert self._store is not None  # noqa: S101 the caller has opened it
        try:
            journal, replay = await Journal.open(
                self._store, store_id=start.store_id, dek=dek, at_least=newest
            )
        except BaseException:
            await self._close_store()
            raise
        self._held = OpenSharedStore(journal, self._keys, policy=policy, index=index)
        return Opened(journal, replay, policy, index)

    async def _start_of(self, store: PostgresStore) -> tuple[EpochStart, bytes]:
        """Return the start of the present epoch in ``store``, and its recovery index.

        Raises ``StoreConflictError`` if another replica has begun an epoch meanwhile.
        """
        start = (await store.read(0)).start
        if start is None:
            raise StoreEmptyError(
                "the database has no journal, but a manifest was set before",
                hint="restore the database from a backup",
            )
        index = await self._database.recovery_index(start.store_id, start.epoch)
        if index is None:
            raise StoreConflictError(
                "another coordinator began an epoch in the meantime", hint="try again"
            )
        return start, index

    async def _opened_store(self, store_id: bytes) -> PostgresStore:
        self._store = await PostgresStore.open(self._database.url, store_id)
        return self._store

    async def _close_store(self) -> None:
        self._held = None
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    async def _seal_key(self) -> None:
        """Seal the data key for this machine. After a failure, the next ``write_head`` seals it."""
        try:
            await self._require_open().write_head()
        except UnavailableError as error:
            log.warning("the data key could not be sealed", reason=str(error))

    async def _current(self) -> bytes:
        if self._serving is None:
            raise BrokenError("there is no store")
        return self._serving


_ASKING: Final = "asking the coordinators that serve for the data key"

_WAITING = {
    FIRST_MANIFEST: "waiting: another coordinator accepts the first manifest of this database",
    RECOVERY: "waiting: this machine cannot open the state, and another coordinator recovers it",
}


def _key_of(seals: Iterable[Unsealed], start: EpochStart) -> tuple[EpochKey, Vouched | None] | None:
    """Return the data key of the epoch ``start``, and the line in the seal of this key.

    None: none of ``seals`` has this data key. The epoch in a seal may be older, because every
    replica can begin epochs. The newest seal with a line is used. If no seal has a line, an older
    version wrote them, and the newest seal is used.
    """
    found = [
        (key, vouched)
        for each in sorted(seals, key=lambda seal: _order(seal.contents.head), reverse=True)
        for key, vouched in zip(each.contents.keys, each.vouched, strict=True)
        if hmac.compare_digest(key_check(key.dek, start.store_id, start.epoch), start.key_check)
    ]
    return next((each for each in found if each[1] is not None), next(iter(found), None))


def _order(position: Position) -> tuple[int, int]:
    return position.epoch, position.sequence


def _only_in_memory() -> BrokenError:
    return BrokenError("a state in a database cannot have SealMode Disabled")
