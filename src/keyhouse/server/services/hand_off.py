"""Handing the data key over: a replica that serves answers asks, one that starts asks.

Notes are read from the store, so anybody may have written them. What costs nothing is checked
first, quotes are verified one at a time, and what was refused or answered is not looked at again.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from keyhouse.attestation import (
    Mark,
    Platform,
    QuoteRefusedError,
    Verdict,
    report_data,
    require_as_new,
)
from keyhouse.attestation.origin.rule import OriginRefusedError, OriginRule
from keyhouse.attestation.quote.binding import Word, replica_report_data
from keyhouse.authority.instance_keys import InstanceKeys
from keyhouse.base.errors import UnavailableError
from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Engine, Running, policy_of
from keyhouse.coordinator.engine.shared import Held
from keyhouse.coordinator.hand_off import exchange
from keyhouse.coordinator.hand_off.admission import Own, require_admitted, require_bound
from keyhouse.coordinator.hand_off.notes import (
    AnyGive,
    Ask,
    Give,
    GiveLine,
    Membership,
    NoteProblem,
    NoteRefusedError,
    Quoted,
    digest_of,
    read_give,
    read_quoted,
)
from keyhouse.coordinator.lease import HeldError
from keyhouse.journal import Position, Vouched
from keyhouse.journal.store.protocol import Note, Notes
from keyhouse.server.services.collateral_memory import ProcessMarks
from keyhouse.server.services.quote_checks import QuoteChecks

REMEMBERED: Final = 16_384
"""Notes that were refused or answered, by SHA-256, and are not looked at again."""

TOLD: Final = 8
"""Refusals of one look that are logged each; of others the number is."""


_WORDS: Final[dict[type, Word]] = {
    Ask: "ask",
    Give: "give",
    GiveLine: "give",
    Membership: "member",
}


class _Remembered:
    """The newest ``REMEMBERED`` digests."""

    def __init__(self) -> None:
        self._digests: dict[bytes, None] = {}

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def add(self, digest: bytes) -> None:
        if len(self._digests) >= REMEMBERED:
            del self._digests[next(iter(self._digests))]
        self._digests[digest] = None


class OwnQuotes:
    """Quotes of this process for other replicas, what they say of it, and checks of theirs.

    ``settings``: SHA-256 of the measured ones. Nothing here waits for the engine, whose task calls
    it, but ``verify`` if it has to ``keep`` what it saw.
    """

    def __init__(self, platform: Platform, checks: QuoteChecks, settings: bytes) -> None:
        self._platform = platform
        self._checks = checks
        self.settings: Final = settings
        self._quote = b""

    def verify_by(self, checks: QuoteChecks) -> None:
        """Verify with ``checks`` from now on."""
        self._checks = checks

    async def vouched(self, note: Ask | AnyGive | Membership) -> Quoted:
        """Return ``note``, which this process made, with the quote that vouches for it.

        Raises ``UnavailableError`` if the platform makes none now.
        """
        message = note.encode()
        data = replica_report_data(_WORDS[type(note)], message)
        return Quoted(message, await asyncio.to_thread(self._platform.quote, data))

    async def own(self) -> Own:
        """Return what this process is: by a quote of its own, which serves for nothing else.

        Raises ``UnavailableError`` or ``QuoteRefusedError`` if that does not verify.
        """
        if not self._quote:
            self._quote = await asyncio.to_thread(self._platform.quote, report_data(bytes(32)))
        return Own(await self.verify(self._quote), self.settings)

    async def verify(self, quote: bytes, *, keep: bool = False) -> Verdict:
        """Return what ``quote`` says, if it is true now.

        ``keep``: whether newer collateral is remembered. Raises ``UnavailableError`` or
        ``QuoteRefusedError``.
        """
        return await self._checks.verify(quote, keep=keep)


class KeyGiver:
    """Answers asks with the data key of ``engine``, which ``quotes`` vouch for.

    It stops for good when someone who may have the key has seen more of the journal than it has. It
    gives nothing while witnesses have not cosigned the state: an old one may admit other code.
    """

    def __init__(self, engine: Engine, notes: Notes, quotes: OwnQuotes) -> None:
        self._engine = engine
        self._notes = notes
        self._quotes = quotes
        self._done = _Remembered()
        self._ahead = _Remembered()
        self._told_held = False
        self.behind: exchange.BehindError | None = None

    async def look(self) -> None:
        """Answer each ask that is new.

        Raises ``UnavailableError`` if the store does not answer.
        """
        refused: list[tuple[Note, NoteRefusedError | QuoteRefusedError]] = []
        asked = await self._notes.notes("ask")
        for note in asked if asked and self._is_witnessed() else ():
            digest = hashlib.sha256(note.raw).digest()
            if self.behind is not None or digest in self._done:
                continue
            try:
                await self._answer(note)
            except (NoteRefusedError, QuoteRefusedError) as error:
                refused.append((note, error))
            except exchange.BehindError as error:
                self._fell_behind(digest, error)
                continue
            except UnavailableError as error:  # no collateral, no quote: perhaps the next time
                log.warning("an ask for the data key could not be answered", reason=str(error))
                continue
            self._done.add(digest)
        _tell(refused)

    async def _answer(self, note: Note) -> None:
        held = self._held()
        quoted = read_quoted(note.raw)
        ask = Ask.read(quoted.message)
        exchange.require_answerable(ask, held, self._quotes.settings)
        require_bound(quoted, "ask")
        if digest_of(quoted.message) in self._done:
            raise NoteRefusedError(NoteProblem.ANSWERED, "it was answered before")
        verdict = await self._quotes.verify(quoted.quote, keep=True)
        require_bound(quoted, "ask", verdict.report_data)
        await self._give(quoted.message, ask, verdict)

    async def _give(self, message: bytes, ask: Ask, verdict: Verdict) -> None:
        """Answer ``ask``, of a process that ``verdict`` is true of, if it is admitted."""
        try:
            own = await self._quotes.own()
        except QuoteRefusedError as refused:  # not the asker's doing
            raise UnavailableError(
                f"this coordinator's own quote does not verify: {refused.message}",
                hint=refused.hint,
            ) from None
        held = self._held()
        require_admitted(verdict, held.replicas, own)
        exchange.require_not_ahead(ask.known, held.place)
        self._engine.lease.require_decisions()
        self._engine.lease.charge()
        settings = self._quotes.settings
        give = exchange.make_give(message, held, self._engine.instance, settings)
        raw = (await self._quotes.vouched(give)).encode()
        await self._notes.put_note(Note("give", ask.instance, raw))
        self._done.add(digest_of(message))
        log.warning(
            "the data key was handed to another coordinator",
            instance=ask.instance.hex(),
            platform=verdict.ppid.hex(),
            version=ask.version,
        )

    def _is_witnessed(self) -> bool:
        """Tell whether witnesses let this process serve; if not, the log says so once."""
        try:
            self._engine.lease.require()
            self._engine.lease.require_decisions()
        except HeldError as error:
            if not self._told_held:
                log.warning("no data key is handed over now", reason=error.message)
            self._told_held = True
            return False
        self._told_held = False
        return True

    def _held(self) -> Held:
        held = self._engine.held
        if held is None:
            raise UnavailableError("there is no data key here now", hint="try again later")
        return held

    def _fell_behind(self, digest: bytes, error: exchange.BehindError) -> None:
        """Look once more at the store; if that shows no more, hand nothing over any more."""
        if digest not in self._ahead:
            self._ahead.add(digest)
            self._engine.look()
            return
        self.behind = error
        log.error("no data key is handed over any more", reason=str(error))


class Taken(msgspec.Struct, frozen=True):
    """A data key that was handed over. ``require_taken`` says whether it may be used."""

    dek: Secret
    give: AnyGive
    giver: Verdict
    marks: dict[str, Mark]  # of the collateral that the giver's quote verified with


class KeyTaker:
    """Asks for the data key of ``store_id`` in the name of a process that is about to serve.

    ``quotes`` remember how new their collateral was in ``marks``, as no journal is open yet.
    """

    def __init__(
        self,
        notes: Notes,
        quotes: OwnQuotes,
        marks: ProcessMarks,
        keys: InstanceKeys,
        instance: bytes,
        store_id: bytes,
        known: Position | None,
    ) -> None:
        self._notes = notes
        self._quotes = quotes
        self._marks = marks
        self._keys = keys
        self._instance = instance
        self._store_id = store_id
        self._known = known
        self._ask: Ask | None = None
        self._done = _Remembered()

    async def ask(self) -> None:
        """Leave a new ask, which replaces the one before: answers to that are refused from now on.

        Raises ``UnavailableError`` if store or platform do not answer.
        """
        settings = self._quotes.settings
        ask = exchange.make_ask(self._store_id, self._instance, self._keys, settings, self._known)
        vouched = await self._quotes.vouched(ask)
        self._ask = ask
        await self._notes.put_note(Note("ask", ask.instance, vouched.encode()))

    async def look(self) -> Taken | None:
        """Return the answer to the present ask; None if there is no true one yet.

        Raises ``UnavailableError`` if the store does not answer.
        """
        if self._ask is None:
            return None
        refused: list[tuple[Note, NoteRefusedError | QuoteRefusedError]] = []
        taken: Taken | None = None
        for note in await self._notes.notes("give", [self._ask.instance]):
            digest = hashlib.sha256(note.raw).digest()
            if note.name != self._ask.instance or digest in self._done:
                continue
            self._done.add(digest)
            try:
                taken = await self._take(note, self._ask)
                break
            except (NoteRefusedError, QuoteRefusedError) as error:
                refused.append((note, error))
        _tell(refused)
        return taken

    async def vouched(self, taken: Taken, rule: OriginRule) -> Vouched | None:
        """Return what the giver says of the line; None unless ``rule`` accepts its code.

        Then it has proven the line itself, by the same rule and the same measured settings. Raises
        ``UnavailableError`` or ``QuoteRefusedError`` if the own quote does not verify.
        """
        own = (await self._quotes.own()).verdict
        try:
            rule.require_platform(taken.giver)
        except OriginRefusedError:
            return None
        if not rule.code.accepts(taken.giver, own):
            return None
        return exchange.vouched_by(taken.give, self._quotes.settings, rule)

    async def require(self, taken: Taken, state: Running) -> None:
        """Raise ``NoteRefusedError`` unless the opened ``state`` is what its giver may hand over.

        Raises ``UnavailableError`` if the giver was judged by collateral that is too old by now.
        """
        exchange.require_root(taken.give, state.keys.root_cert)
        replicas = policy_of(state.manifest).manifest.config.replicas
        require_admitted(taken.giver, replicas, await self._quotes.own())
        require_as_new(taken.marks, state.collateral_marks)

    async def _take(self, note: Note, ask: Ask) -> Taken:
        quoted = read_quoted(note.raw)
        give = read_give(quoted.message)
        exchange.require_answers(give, ask.encode(), ask)
        require_bound(quoted, "give")
        verdict = await self._quotes.verify(quoted.quote, keep=True)
        require_bound(quoted, "give", verdict.report_data)
        exchange.require_not_older(give.place, self._known)
        return Taken(exchange.key_in(give, self._keys), give, verdict, dict(self._marks.known()))


def _tell(refused: Sequence[tuple[Note, NoteRefusedError | QuoteRefusedError]]) -> None:
    for note, error in refused[:TOLD]:
        reason = f"{error.reason}: {error.message}"
        log.warning("a note was refused", kind=note.kind, of=note.name.hex(), reason=reason)
    if len(refused) > TOLD:
        log.warning("more notes were refused", number=len(refused) - TOLD)
