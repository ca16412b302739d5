"""Send a new data key to the running replicas.

The replica that makes a new data key seals it to the public keys of each other member, in notes of
the kind ``switch``. The store commits these notes together with the new epoch. A replica that finds
an epoch with an unknown data key reads the note for this replica.

The writer signs a switch with its key recorded in the journal; the hash chain alone proves no
author. But anyone with a data key can write records, and a dismissed replica may have the old data
key. So both sides also require a quote over the keys of the other side (``Members``). A replica
without a usable switch ends, and asks for the data key at its next start.
"""

import asyncio

import msgspec

from keyhouse.attestation import QuoteRefusedError
from keyhouse.authority import instance_keys
from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.line import level_of
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Member, Running
from keyhouse.coordinator.hand_off.membership import Members
from keyhouse.coordinator.hand_off.notes import NoteProblem, NoteRefusedError, Switch
from keyhouse.journal import Position
from keyhouse.journal.chain import key_check
from keyhouse.journal.store.protocol import Note, Notes
from keyhouse.manifest import Replicas


class SwitchNotes:
    """Makes and reads the switches of the process ``own``, for the engine (``Shared``)."""

    def __init__(
        self, own: Member, keys: instance_keys.InstanceKeys, notes: Notes, members: Members
    ) -> None:
        self._own = own
        self._keys = keys
        self._notes = notes
        self._members = members

    async def publish_quote(self, store_id: bytes) -> None:
        """Store the quote of this process for the members. Raises ``UnavailableError``."""
        await self._members.publish_quote(store_id)

    async def notes_of(
        self, dek: Secret, state: Running, *, store_id: bytes, after: Position
    ) -> tuple[Note, ...]:
        """Return notes with ``dek`` for all members that the manifest of ``state`` admits.

        ``dek``: the key of the next epoch. ``after``: the end of the present epoch. Raises
        ``ConflictError`` if the manifest does not admit this process, or ``UnavailableError``.
        """
        replicas = _replicas(state)
        if replicas is None:
            return ()
        own = await self._members.require_own(replicas)
        await self._members.publish_quote(store_id)
        others = tuple(each for each in state.members if each.instance != self._own.instance)
        level = level_of(state)
        readers = await self._members.admitted(others, replicas, own, store_id, level)

        def seal() -> tuple[Note, ...]:
            made = (
                make_switch(each, self._own, self._keys, store_id=store_id, after=after, dek=dek)
                for each in readers
            )
            return tuple(Note("switch", each.reader, each.encode()) for each in made if each)

        return await asyncio.to_thread(seal)

    async def next_data_key(
        self, state: Running, *, store_id: bytes, position: Position
    ) -> Secret | None:
        """Return the next data key addressed to this process by a member of ``state``, or None.

        ``position``: the place of this process in the journal. Raises ``UnavailableError`` if the
        store does not answer, or if the quote of that member cannot be verified now.
        """
        instance = self._own.instance
        reader = SwitchReader(store_id, instance, position, state.members)
        for note in await self._notes.notes("switch", [instance]):
            try:
                switch, writer = signed_switch(note.raw, reader)
                await self._members.require(writer, _replicas(state), store_id)
                return key_of_switch(switch, self._keys)
            except (NoteRefusedError, QuoteRefusedError) as refused:
                reason = f"{refused.reason}: {refused.message}"
                log.warning("a note was refused", kind="switch", of=instance.hex(), reason=reason)
        return None

    async def lowest_level(self, state: Running, *, store_id: bytes) -> int | None:
        """Return the lowest event level among all other members of ``state`` that may serve.

        The level of a member is the highest level of events that the member can read. None without
        another member. Raises ``UnavailableError``.
        """
        others = tuple(each for each in state.members if each.instance != self._own.instance)
        return await self._members.lowest_level(others, store_id)


class SwitchReader(msgspec.Struct, frozen=True):
    """The process that reads and checks a switch, with its place in the journal."""

    store_id: bytes
    instance: bytes
    position: Position
    members: tuple[Member, ...]


def make_switch(
    reader: Member,
    writer: Member,
    keys: instance_keys.InstanceKeys,
    *,
    store_id: bytes,
    after: Position,
    dek: Secret,
) -> Switch | None:
    """Return the note with ``dek`` for ``reader``; ``dek`` is the key of the epoch after ``after``.

    ``keys``: the private keys of ``writer``, which sign the note. None if nothing can be sealed to
    the reader's key.
    """
    epoch = after.epoch + 1
    switch = Switch(
        store_id=store_id,
        writer=writer.instance,
        reader=reader.instance,
        after=after,
        epoch=epoch,
        key_check=key_check(dek, store_id, epoch),
    )
    try:
        sealed = instance_keys.seal_for(reader.kem, dek, switch.info)
    except instance_keys.UnusableKeyError:
        return None
    switch = msgspec.structs.replace(switch, sealed=sealed)
    return msgspec.structs.replace(switch, signature=keys.sign(switch.signed))


def signed_switch(raw: bytes, reader: SwitchReader) -> tuple[Switch, Member]:
    """Return the switch in ``raw`` for ``reader``, and the member that signed it.

    Raises ``NoteRefusedError``.
    """
    switch = Switch.read(raw)
    if switch.store_id != reader.store_id:
        raise NoteRefusedError(
            NoteProblem.OTHER_STORE, "the note with the data key is for another store"
        )
    if switch.reader != reader.instance:
        raise NoteRefusedError(
            NoteProblem.SEALED_FOR_ANOTHER, "the note with the data key is for another process"
        )
    writer = next((each for each in reader.members if each.instance == switch.writer), None)
    if writer is None or writer.instance == reader.instance:
        raise NoteRefusedError(
            NoteProblem.WRITER,
            "the writer of the note with the data key is not a member of this journal",
        )
    if not instance_keys.is_signed_by(writer.signing, switch.signature, switch.signed):
        raise NoteRefusedError(
            NoteProblem.SIGNATURE, "the note with the data key has no signature of its writer"
        )
    _require_continues(switch, reader.position)
    return switch, writer


def key_of_switch(switch: Switch, keys: instance_keys.InstanceKeys) -> Secret:
    """Return the data key in ``switch``, unsealed with the private ``keys``.

    A read of the journal shows whether the key fits. Raises ``NoteRefusedError``.
    """
    try:
        dek = keys.unseal(switch.sealed, switch.info)
    except instance_keys.SealedForAnotherError as refused:
        raise NoteRefusedError(NoteProblem.SEALED_FOR_ANOTHER, refused.message) from None
    if key_check(dek, switch.store_id, switch.epoch) != switch.key_check:
        raise NoteRefusedError(
            NoteProblem.EPOCH,
            f"the data key in the note does not fit the key check of epoch {switch.epoch} in the"
            " note",
        )
    return dek


def _require_continues(switch: Switch, position: Position) -> None:
    after = switch.after
    found, known = (after.epoch, after.sequence), (position.epoch, position.sequence)
    same = found != known or after.chain == position.chain
    if switch.epoch != after.epoch + 1 or found < known or not same:
        raise NoteRefusedError(
            NoteProblem.EPOCH,
            "the note with the next data key does not continue the journal of this coordinator",
        )


def _replicas(state: Running) -> Replicas | None:
    return policy_of(state.manifest).manifest.config.replicas
