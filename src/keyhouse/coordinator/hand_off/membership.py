"""Verify the members of a journal: each member has a quote over its public keys.

The journal has a record of each member, a process that serves the state. The record alone proves
nothing: anyone with the data key can write a record with own keys. So a new data key requires a
quote over exactly the keys in the record, twice: the writer checks each reader before it sends the
key, and each reader checks the writer before it uses the key.

Each check verifies the quote with the collateral and the admission rule at the time of the check.
The quote itself may be old. The private keys are in the memory of a single process and end with the
process. So a copy of the quote is useless for any other process.
"""

import asyncio
from typing import Final, Protocol

from keyhouse.attestation import QuoteRefusedError, Verdict
from keyhouse.base.errors import ConflictError, KeyhouseError, UnavailableError
from keyhouse.base.log import log
from keyhouse.coordinator.core.events import LEVEL
from keyhouse.coordinator.core.state import Member
from keyhouse.coordinator.hand_off.admission import Own, require_admitted, require_bound
from keyhouse.coordinator.hand_off.notes import (
    Membership,
    NoteProblem,
    NoteRefusedError,
    Quoted,
    read_quoted,
)
from keyhouse.journal.store.protocol import Note, Notes
from keyhouse.manifest import Replicas

WITHIN: Final = 5.0
"""Seconds for the quotes of all members; changes wait meanwhile.

A member without a verdict in this time does not receive the new data key.
"""


class MemberQuotes(Protocol):
    """The part of the attestation for ``Members``: make own quotes, verify quotes of members."""

    async def vouched(self, note: Membership) -> Quoted:
        """Return ``note`` with a quote that binds it. Raises ``UnavailableError``."""
        ...

    async def verify(self, quote: bytes) -> Verdict:
        """Return the verdict of ``quote`` if it verifies now.

        Raises ``QuoteRefusedError`` or ``UnavailableError``.
        """
        ...

    async def own(self) -> Own:
        """Return the identity of this process. Raises as ``verify``."""
        ...


class Members:
    """Publishes the quote of this process, the member ``own``, and verifies other members."""

    def __init__(self, own: Member, notes: Notes, quotes: MemberQuotes, settings: bytes) -> None:
        """Store the arguments.

        ``settings``: the SHA-256 of the measured settings, which all members must have.
        """
        self._own = own
        self._notes = notes
        self._quotes = quotes
        self._settings = settings
        self._published: Note | None = None
        self._published_in = b""

    async def publish_quote(self, store_id: bytes) -> None:
        """Store the quote of this process as a note for members. Raises ``UnavailableError``."""
        if self._published is None or self._published_in != store_id:
            membership = Membership(
                store_id=store_id,
                instance=self._own.instance,
                kem=self._own.kem,
                signing=self._own.signing,
                settings=self._settings,
                level=LEVEL,
            )
            raw = (await self._quotes.vouched(membership)).encode()
            self._published, self._published_in = Note("member", self._own.instance, raw), store_id
        await self._notes.put_note(self._published)

    async def require_own(self, replicas: Replicas) -> Own:
        """Return the identity of this process; ``replicas`` must admit it.

        Otherwise this process would know a data key that the manifest does not grant to it. Raises
        ``ConflictError``, or ``UnavailableError`` if its own quote cannot be verified.
        """
        own = await self._own_now()
        try:
            require_admitted(own.verdict, replicas, own)
        except NoteRefusedError as refused:
            raise ConflictError(
                "this coordinator would make the new data key, but the new manifest does not admit"
                f" this coordinator: {refused.message}",
                hint="send the request to a coordinator that the new manifest admits",
            ) from None
        return own

    async def admitted(
        self,
        members: tuple[Member, ...],
        replicas: Replicas,
        own: Own,
        store_id: bytes,
        level: int = LEVEL,
    ) -> tuple[Member, ...]:
        """Return the members that ``replicas`` admit by their quotes; log each refused member.

        ``own`` is the identity of this process. ``level`` is the event level of the journal, which
        each member has to read.

        Raises ``UnavailableError`` if the store does not answer.
        """
        notes = await self._notes_of(members)
        found: list[Member] = []
        end = asyncio.get_running_loop().time() + WITHIN
        for each in members:
            try:
                async with asyncio.timeout_at(end):
                    note = notes.get(each.instance)
                    await self._require(each, note, store_id, replicas, own, level)
            except TimeoutError:
                _log_refused(
                    each, f"timeout: its quote was not verified within {WITHIN:.0f} seconds"
                )
            except (NoteRefusedError, QuoteRefusedError) as refused:
                _log_refused(each, f"{refused.reason}: {refused.message}")
            except KeyhouseError as error:
                _log_refused(each, f"{error.code}: {error.message}")
            except Exception as error:  # noqa: BLE001 no note of another process may end the engine
                _log_refused(each, type(error).__qualname__)
            else:
                found.append(each)
        return tuple(found)

    async def require(self, member: Member, replicas: Replicas | None, store_id: bytes) -> None:
        """Return if ``replicas`` admit ``member`` by the quote over its keys.

        Raises ``NoteRefusedError``, ``QuoteRefusedError``, or ``UnavailableError`` if no verdict is
        possible now.
        """
        notes = await self._notes_of((member,))
        try:
            async with asyncio.timeout(WITHIN):
                own = await self._own_now()
                note = notes.get(member.instance)
                await self._require(member, note, store_id, replicas, own, 1)
        except KeyhouseError:
            raise
        except Exception as error:  # noqa: BLE001 as above, and time may be up
            failed = type(error).__qualname__
            raise UnavailableError(
                f"the quote of a member cannot be verified now: {failed}"
            ) from None

    async def _require(
        self,
        member: Member,
        note: Note | None,
        store_id: bytes,
        replicas: Replicas | None,
        own: Own,
        level: int,
    ) -> None:
        if note is None:
            raise NoteRefusedError(NoteProblem.NO_QUOTE, "the member has no quote in the store")
        quoted = read_quoted(note.raw)
        membership = Membership.read(quoted.message)
        if membership.store_id != store_id:
            raise NoteRefusedError(
                NoteProblem.OTHER_STORE, "the quote of the member is for another store"
            )
        keys = (membership.instance, membership.kem, membership.signing)
        if keys != (member.instance, member.kem, member.signing):
            raise NoteRefusedError(
                NoteProblem.OTHER_KEYS,
                "the quote of the member covers other keys than the journal states",
            )
        if membership.settings != self._settings:
            raise NoteRefusedError(
                NoteProblem.OTHER_SETTINGS,
                "the member has other measured settings than this coordinator",
            )
        if membership.level < level:
            raise NoteRefusedError(
                NoteProblem.LEVEL,
                f"the member reads events up to level {membership.level}; the journal needs level"
                f" {level}",
            )
        require_bound(quoted, "member")
        verdict = await self._quotes.verify(quoted.quote)
        require_bound(quoted, "member", verdict.report_data)
        require_admitted(verdict, replicas, own)

    async def lowest_level(self, members: tuple[Member, ...], store_id: bytes) -> int | None:
        """Return the lowest event level of all ``members`` with a note in the store, or None.

        The event level of a member is the highest level of events that the member can read. A
        serving member renews its note every ten minutes, and old notes may be deleted after an
        hour. Notes are not verified here. A forged note only delays the events of a higher level.
        Raises ``UnavailableError``.
        """
        levels: list[int] = []
        for note in (await self._notes_of(members)).values():
            try:
                membership = Membership.read(read_quoted(note.raw).message)
            except NoteRefusedError:
                continue
            if membership.store_id == store_id:
                levels.append(membership.level)
        return min(levels, default=None)

    async def _own_now(self) -> Own:
        try:
            return await self._quotes.own()
        except QuoteRefusedError as refused:  # the cause is this process
            raise UnavailableError(
                f"this coordinator's own quote does not verify: {refused.message}",
                hint=refused.hint,
            ) from None

    async def _notes_of(self, members: tuple[Member, ...]) -> dict[bytes, Note]:
        names = [member.instance for member in members]
        return {note.name: note for note in await self._notes.notes("member", names)}


def _log_refused(member: Member, reason: str) -> None:
    log.warning(
        "a member did not receive the new data key", instance=member.instance.hex(), reason=reason
    )
