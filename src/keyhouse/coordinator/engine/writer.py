"""Write the journal: in the state directory or database, or in memory.

The journal is in memory with the seal mode ``Disabled``. Besides the records, the writer maintains
three things. *Head*: the seal names a position of the journal, so a later start notices a journal
that ends before it. *Acknowledgements*: a holder of the data key can append acknowledgements of a
pending update. So a start drops all acknowledgements after the sealed position, and the writer
seals the position after each acknowledgement. *Epochs*: when the records outweigh the base, the
writer begins a new epoch with the present state.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from keyhouse.authority import index_of, recovery_index
from keyhouse.base.errors import BrokenError, KeyhouseError, UnavailableError
from keyhouse.base.log import log as _log
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.base import Filed, base_events
from keyhouse.coordinator.core.commands import SetManifest
from keyhouse.coordinator.core.line import level_of
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import LineItem, PendingUpdate, Running, State
from keyhouse.coordinator.core.update_log import UpdateLogView
from keyhouse.coordinator.engine.records import LogTail, encode_events
from keyhouse.coordinator.engine.shared import Held
from keyhouse.coordinator.origin.objects import read_log_object
from keyhouse.journal import (
    Journal,
    LineMark,
    LogParts,
    LogStore,
    MemoryStore,
    Opened,
    OutcomeUnknownError,
    Position,
    StateStorage,
    index_mac_key,
    log_name,
)
from keyhouse.journal.store.protocol import Beside, Note
from keyhouse.manifest import SealMode

HEAD_EVERY = 1024
"""The most records between two writes of the sealed head.

A rollback of fewer records may go unnoticed.
"""

PATIENCE = 256
"""Appends from a failed attempt to begin an epoch to the next attempt."""


class JournalWriter:
    """Writes and maintains the journal. Only the engine's task uses this class."""

    def __init__(
        self, storage: StateStorage, journal: Journal | None = None, *, in_memory: bool = False
    ) -> None:
        self.storage: Final = storage
        self.journal: Journal | None = None
        self.on_disk = False  # True: the journal is in the state directory or database
        self._head_at = 0
        self._patience = 0
        self._policy_due = ""  # the seal policy to apply after another writer's epoch; empty: none
        # Called after a possible write of another writer of the same store.
        self.changed: Callable[[], None] = lambda: None
        # Each seal has the mark of the proven line.
        self.mark_of: Callable[[Running], LineMark | None] = lambda _: None
        self._line: tuple[LineItem, ...] | None = None  # the line of the published state
        self._covered: PendingUpdate | None = None  # the pending update at the sealed place
        self._votes: PendingUpdate | None = None  # the pending update of the published state
        self._votes_due = False
        self.public_log = LogStore()
        if journal is not None:
            self._use(journal, on_disk=not in_memory)

    @property
    def position(self) -> Position | None:
        """Return the durable place of the journal; None without a journal."""
        return self.journal.position if self.journal is not None else None

    @property
    def written(self) -> Position | None:
        """Return the place after the newest known record; the record may not be durable yet."""
        return self.journal.written if self.journal is not None else None

    @property
    def returns(self) -> int:
        """Return how often the journal has moved back to its durable place, after lost records."""
        return self.journal.returns if self.journal is not None else 0

    def held(self, position: Position | None, state: Running) -> Held | None:
        """Return the data for a hand-off; None unless ``state`` is the state at ``position``.

        The condition excludes a mixed answer: while an epoch begins, the key may already be the
        next key, and the manifest still the former manifest.
        """
        journal = self.journal
        if journal is None or journal.position != position:
            return None
        replicas = policy_of(state.manifest).manifest.config.replicas
        root = state.keys.root_cert
        line, place = self.mark_of(state), journal.position
        level = level_of(state)
        return Held(journal.store_id, journal.dek, place, root, replicas, line, level)

    def follow(self, state: State) -> None:
        """Put the line of the published ``state`` into each later seal.

        New acknowledgements of a pending update make a new seal necessary. A start drops
        acknowledgements after the place in the seal, because a holder of the data key can append
        them.
        """
        if not isinstance(state, Running) or not self.on_disk:
            return
        # The line changes rarely, and a mark costs hashes.
        if state.line is not self._line:
            self._line = state.line
            self.storage.follow_line(self.mark_of(state))
        self._votes_due = state.pending is not None and state.pending != self._covered
        self._votes = state.pending

    async def conclude_opening(self, state: Running) -> None:
        """Add the line of ``state``, which is opened and proven, to the seal on the disk."""
        self._covered = state.pending
        if self.on_disk:
            await self.storage.seal_line(self.mark_of(state))

    async def read_object(self, state: Running, name: str) -> bytes | None:
        """Return an object beside the log of ``state``; None if it is missing.

        Raises ``UnavailableError``.
        """
        if not self.on_disk and self.journal is not None:
            return await self.public_log.known_object(name)
        return await read_log_object(self.storage, state, name)

    async def settle(self) -> None:
        """Return if the last write, of unknown outcome, has happened.

        Errors as for ``Journal.settle``.
        """
        if self.on_disk:
            await self.storage.settle()
        else:
            await self.present.settle()

    async def opened_log(self, verifier: str, tail: LogTail) -> LogStore:
        """Return the log ``verifier`` from its files, with the later leaves in ``tail``."""
        return await LogStore.open(self._log_parts(verifier), tail.filed, tail.leaves)

    async def new_log(
        self, verifier: str, objects: Sequence[bytes], *, on_disk: bool = True
    ) -> LogStore:
        """Return a new log with the public key ``verifier`` and the stored ``objects``.

        Without ``on_disk``, the log is in memory only. Raises ``UnavailableError``.
        """
        store = LogStore(self._log_parts(verifier) if on_disk else None)
        await store.put_objects(objects)
        return store

    async def establish(
        self,
        command: SetManifest,
        base: Iterable[bytes],
        objects: Sequence[bytes],
        state: Running,
    ) -> None:
        """Begin the journal and the log of a new deployment; archive an older store.

        ``objects`` belong to the new log. ``state`` is the state in ``base``.
        """
        mode = policy_of(command.manifest).seal_mode
        on_disk = mode is not SealMode.DISABLED
        verifier = command.log_key.verifier
        public_log = await self.new_log(verifier, objects, on_disk=on_disk)
        try:
            if mode is SealMode.DISABLED:
                await self.storage.archive()
                journal = await Journal.create(
                    MemoryStore(), store_id=command.store_id, dek=command.dek, base=base
                )
            else:
                journal = await self.storage.establish(
                    store_id=command.store_id,
                    dek=command.dek,
                    base=base,
                    policy=mode,
                    recovery_index=command.recovery_index,
                    line=self.mark_of(state),
                )
        except OutcomeUnknownError as error:
            raise _unknown() from error
        self._use(journal, on_disk=on_disk)
        self.public_log = public_log

    async def adopt_recovered(
        self, opened: Opened, started: Iterable[bytes], state: Running, public_log: LogStore
    ) -> None:
        """Begin to write the journal of a recovered store; seal its key for this platform.

        ``opened``: the result of ``StateStorage.recover``. ``started``: the encoded events of this
        start. ``state`` is the proven state after these events.

        Raises ``UnavailableError`` or ``BrokenError``; then call ``StateStorage.relock``.
        """
        policy = policy_of(state.manifest).seal_mode
        try:
            await opened.journal.append(list(started))
            self.storage.follow_line(self.mark_of(state))
            await self.storage.reseal(policy)
        except OutcomeUnknownError as error:
            raise _unknown() from error
        self._use(opened.journal, on_disk=True)
        self.public_log = public_log

    async def begin_epoch(
        self,
        state: Running,
        log: UpdateLogView,
        *,
        dek: Secret | None = None,
        notes: tuple[Note, ...] = (),
        leaves: Sequence[bytes] = (),
    ) -> Position:
        """Begin an epoch with ``state`` and ``log`` as its base.

        ``dek``: the new data key; None: the data key does not change. The same transaction stores
        ``notes``. The base has ``leaves`` of the transparency log; all earlier leaves are written
        to its files first.

        Seal policy and recovery index come from ``state``. The policy may also move the journal to
        memory, with nothing left on the disk, or back to the disk. Errors as for
        ``Journal.append``, and ``BrokenError`` if it is unknown whether a store on the disk exists.
        """
        journal = self.present
        mode = policy_of(state.manifest).seal_mode
        await self._file_log(state, mode)
        filed = Filed(*self.public_log.filed(leaves)) if state.public_log else None
        base = encode_events(base_events(state, log, filed))
        if mode is SealMode.DISABLED:
            await self._begin_in_memory(journal, state, base, dek, notes)
        elif self.on_disk:
            index = _next_index(journal, state, dek)
            line = self.mark_of(state)
            await self.storage.begin_epoch(
                base, dek=dek, policy=mode, recovery_index=index, notes=notes, line=line
            )
            self._covered = state.pending
        else:
            await self._move_to_disk(journal, state, base, dek)
        position = self.present.position
        self._head_at = position.sequence
        return position

    async def _file_log(self, state: Running, mode: SealMode) -> None:
        """Write all durable leaves of the transparency log to its files.

        Nothing happens if the seal mode ``mode`` keeps the state in memory.
        """
        if state.public_log is None or mode is SealMode.DISABLED:
            return
        if not self.on_disk:
            await self.public_log.move_to(self._log_parts(state.public_log.verifier))
        else:
            await self.public_log.sync()

    def _log_parts(self, verifier: str) -> LogParts:
        return self.storage.log_parts(log_name(verifier))

    def is_too_long(self) -> bool:
        """Return whether a compaction is due: the records outweigh the base."""
        if self.journal is None or not self.journal.outweighs_base():
            return False
        self._patience = max(self._patience - 1, 0)
        return self._patience == 0

    def postpone(self, error: KeyhouseError) -> None:
        """Retry the maintenance of the journal later: ``error`` has stopped it without a change."""
        self._patience = PATIENCE
        _log.warning("the maintenance of the journal failed", reason=str(error))

    async def compact(self, state: State, log: UpdateLogView) -> None:
        """Replace all records by a base with ``state`` and ``log``. Errors as ``begin_epoch``."""
        if not isinstance(state, Running):
            raise BrokenError("a journal without a manifest cannot be compacted")
        position = await self.begin_epoch(state, log)
        _log.info("the journal was compacted", epoch=position.epoch, sequence=position.sequence)

    def adopt(self, state: State) -> None:
        """Schedule the seal of the data key after another writer has begun an epoch.

        The next ``seal_head`` seals the key. ``state``: the state in this epoch. The manifest in
        ``state`` determines the seal policy.
        """
        if isinstance(state, Running):
            self._policy_due = policy_of(state.manifest).seal_mode

    def is_head_due(self) -> bool:
        """Return whether ``seal_head`` has work."""
        journal = self.journal
        if self.public_log.has_complete or journal is None or not self.on_disk:
            return self.public_log.has_complete
        late = journal.position.sequence - self._head_at >= HEAD_EVERY
        return late or self._votes_due or self._policy_due != ""

    async def seal_head(self) -> None:
        """Write the complete tiles of the transparency log, and seal key and place if necessary.

        The seal contains the data key and a durable place of the journal. So a later start notices
        a journal that ends before this place. A new seal is necessary in three cases:
        ``HEAD_EVERY`` records have come since the last seal, users have acknowledged a pending
        update, or a replica has begun an epoch. Raises ``UnavailableError``.
        """
        await self.public_log.write_complete_tiles()
        if self.journal is None or not self.on_disk:
            return
        if policy := self._policy_due:
            await self.storage.reseal(policy)
            self._policy_due = ""
        sequence = self.journal.position.sequence
        if self._votes_due or sequence - self._head_at >= HEAD_EVERY:
            self._head_at = sequence
            await self.storage.write_head()
            self._covered, self._votes_due = self._votes, False

    async def cover_votes(self) -> None:
        """Seal the place after new acknowledgements, before they are answered.

        After a failure, the next ``seal_head`` seals the place. A crash before that loses the
        acknowledgements.
        """
        if not self._votes_due:
            return
        try:
            await self.seal_head()
        except UnavailableError as error:
            _log.warning("the acknowledgements could not be sealed", reason=str(error))

    async def close(
        self, *, clean: bool, rolled_back: bool = False, checkpoint: bytes = b""
    ) -> None:
        """Close the store; after a clean run, first write the head and the files of the log.

        ``checkpoint``: the newest checkpoint of the log, written beside these files. After a
        rollback (``rolled_back``), the head is written as well: it is the newest place that was
        durable, and the next start must know it.

        If the disk has no space for the head, the former head remains. A later rollback of the
        newest records may then go unnoticed. The transparency log loses no leaf.
        """
        try:
            if (clean or rolled_back) and self.on_disk:
                await self.storage.write_head()
            if clean and self.on_disk:
                await self.public_log.sync()
                await self.public_log.write_checkpoint(checkpoint)
        except UnavailableError as error:
            _log.warning("the head could not be written", reason=str(error))
        finally:
            await self.storage.close()

    async def _begin_in_memory(
        self,
        journal: Journal,
        state: Running,
        base: Iterable[bytes],
        dek: Secret | None,
        notes: tuple[Note, ...],
    ) -> None:
        """Begin an epoch in memory. Before this returns, a store on the disk is erased.

        ``dek`` and ``notes``: as for ``begin_epoch``. All steps that can fail come first: after the
        store on the disk is erased, no state remains to return to.
        """
        if not self.on_disk:
            await journal.begin_epoch(base, dek=dek, beside=Beside(notes=notes))
            return
        memory = await Journal.create(
            MemoryStore(),
            store_id=journal.store_id,
            dek=journal.dek if dek is None else dek,
            base=base,
            after=journal.position,
        )
        try:
            await self.storage.destroy(state.time)
        except OutcomeUnknownError as error:
            raise _unknown() from error
        self._use(memory, on_disk=False)
        await self.public_log.move_to_memory()

    async def _move_to_disk(
        self, journal: Journal, state: Running, base: Iterable[bytes], dek: Secret | None
    ) -> None:
        """Begin an epoch on the disk that continues the journal in memory.

        ``dek``: the new data key; None: the data key does not change.
        """
        try:
            established = await self.storage.establish(
                store_id=journal.store_id,
                dek=journal.dek if dek is None else dek,
                base=base,
                policy=policy_of(state.manifest).seal_mode,
                recovery_index=_next_index(journal, state, dek),
                after=journal.position,
                line=self.mark_of(state),
            )
        except OutcomeUnknownError as error:
            raise _unknown() from error
        self._use(established, on_disk=True)

    def _use(self, journal: Journal, *, on_disk: bool) -> None:
        """Write to ``journal`` from now on; ``on_disk``: its store is not in memory."""
        self.journal, self.on_disk = journal, on_disk
        self._head_at = journal.position.sequence
        journal.store.watch(lambda: self.changed())  # noqa: PLW0108 the engine replaces it later

    @property
    def present(self) -> Journal:
        """Return the journal, which must exist."""
        if self.journal is None:
            raise BrokenError("no journal is open")
        return self.journal


def _next_index(journal: Journal, state: Running, dek: Secret | None) -> bytes:
    """Return the recovery index of the next epoch.

    ``dek``: the new data key; None: the data key does not change.
    """
    epoch, store_id = journal.position.epoch + 1, journal.store_id
    mac_key = index_mac_key(journal.dek if dek is None else dek, store_id, epoch)
    index = index_of(state.recovery, state.keys, state.manifest, store_id=store_id, epoch=epoch)
    return recovery_index(index, keys=state.keys, mac_key=mac_key)


def _unknown() -> BrokenError:
    return BrokenError(
        "it is unknown whether the last change is durable",
        hint="restart the coordinator: a start reads the durable state",
    )
