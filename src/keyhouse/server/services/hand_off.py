"""The hand-off of the data key: a serving replica answers requests, a starting replica sends them.

Notes come from the store, so anybody may have written them. Cheap checks come first, and quotes are
verified one at a time. Refused and answered notes are not read again.
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
from keyhouse.server.services.quote_checks import ProcessMarks, QuoteChecks

REMEMBERED: Final = 16_384
"""The number of refused or answered notes, by SHA-256, that are not read again."""

LOGGED: Final = 8
"""Refusals that are logged individually per poll. Further refusals are counted."""


_WORDS: Final[dict[type, Word]] = {
    Ask: "ask",
    Give: "give",
    GiveLine: "give",
    Membership: "member",
}


class _Remembered:
    """The digests of handled notes of replicas: the newest ``REMEMBERED``.

    A note with such a digest is not handled again.
    """

    def __init__(self) -> None:
        self._digests: dict[bytes, None] = {}

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def add(self, digest: bytes) -> None:
        if len(self._digests) >= REMEMBERED:
            del self._digests[next(iter(self._digests))]
        self._digests[digest] = None


class OwnQuotes:
    """Makes quotes of this process for other replicas, and verifies the quotes of other replicas.

    ``settings`` is the SHA-256 of the measured settings. The engine's task calls these methods, so
    they never wait for the engine, except ``verify_and_remember``.
    """

    def __init__(self, platform: Platform, checks: QuoteChecks, settings: bytes) -> None:
        self._platform = platform
        self._checks = checks
        self.settings: Final = settings
        self._quote = b""

    def verify_by(self, checks: QuoteChecks) -> None:
        """Verify all later quotes of replicas with ``checks``."""
        self._checks = checks

    async def vouched(self, note: Ask | AnyGive | Membership) -> Quoted:
        """Return ``note`` of this process with a quote over the note.

        Raises ``UnavailableError`` if the platform makes no quote now.
        """
        message = note.encode()
        data = replica_report_data(_WORDS[type(note)], message)
        return Quoted(message, await asyncio.to_thread(self._platform.quote, data))

    async def own(self) -> Own:
        """Return the identity of this process: the verdict on its own quote, and its settings.

        The quote is made once, and no replica receives it. Raises ``QuoteRefusedError`` if the
        quote does not verify, and ``UnavailableError`` if it cannot be made or verified now.
        """
        if not self._quote:
            self._quote = await asyncio.to_thread(self._platform.quote, report_data(bytes(32)))
        return Own(await self.verify(self._quote), self.settings)

    async def verify(self, quote: bytes) -> Verdict:
        """Return the verdict on ``quote``, a quote of any replica. Never waits for the engine.

        Raises ``UnavailableError`` or ``QuoteRefusedError``.
        """
        return (await self._checks.verified(quote)).verdict

    async def verify_and_remember(self, quote: bytes) -> Verdict:
        """Return the verdict as ``verify`` does, and remember the age of newer collateral.

        This may wait for the engine, so the engine's task must not call it.
        """
        return await self._checks.verify(quote)


class KeySender:
    """Sends the data key of ``engine`` to replicas that request it with ``notes``.

    ``quotes`` makes and verifies the quotes. The state of this process may be an old copy, and an
    old state may admit different code. So this process sends no key while witnesses have not
    cosigned its state. This process never sends a key again after an admitted replica has seen more
    of the journal than this process can read.
    """

    def __init__(self, engine: Engine, notes: Notes, quotes: OwnQuotes) -> None:
        self._engine = engine
        self._notes = notes
        self._quotes = quotes
        self._done = _Remembered()
        self._ahead = _Remembered()
        self._logged_held = False
        self.behind: exchange.BehindError | None = None

    async def answer_requests(self) -> None:
        """Answer each new request of a replica for the data key.

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
            except UnavailableError as error:  # no collateral or no quote: a later poll may succeed
                log.warning("a request for the data key could not be answered", reason=str(error))
                continue
            self._done.add(digest)
        _log_refusals(refused)

    async def _answer(self, note: Note) -> None:
        held = self._held()
        quoted = read_quoted(note.raw)
        ask = Ask.read(quoted.message)
        exchange.require_answerable(ask, held, self._quotes.settings)
        require_bound(quoted, "ask")
        if digest_of(quoted.message) in self._done:
            raise NoteRefusedError(
                NoteProblem.ANSWERED,
                "this request for the data key was answered before; a new request is needed",
                hint="start the requesting coordinator again if it still has no data key",
            )
        verdict = await self._quotes.verify_and_remember(quoted.quote)
        require_bound(quoted, "ask", verdict.report_data)
        await self._send_key(quoted.message, ask, verdict)

    async def _send_key(self, message: bytes, ask: Ask, verdict: Verdict) -> None:
        """Send the data key for ``ask`` if the manifest admits the asking process.

        ``message``: the bytes of the ask. ``verdict``: the verdict on the quote of the asking
        process.
        """
        try:
            own = await self._quotes.own()
        except QuoteRefusedError as refused:  # not the fault of the other process
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
        give = exchange.make_give(message, held, self._engine.process.instance, settings)
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
        """Return whether the witnesses' lease lets this process serve. Log the first refusal."""
        try:
            self._engine.lease.require()
            self._engine.lease.require_decisions()
        except HeldError as error:
            if not self._logged_held:
                log.warning("this coordinator hands no data key over now", reason=error.message)
            self._logged_held = True
            return False
        self._logged_held = False
        return True

    def _held(self) -> Held:
        held = self._engine.held
        if held is None:
            raise UnavailableError(
                "this coordinator has no data key at present", hint="try again later"
            )
        return held

    def _fell_behind(self, digest: bytes, error: exchange.BehindError) -> None:
        """Handle a request by a replica that has seen more of the journal than this process.

        ``digest``: the SHA-256 of the request. The first time, read the store again. If the replica
        is still ahead afterwards, the state of this process is old. So this process sends the data
        key to no replica until its end.
        """
        if digest not in self._ahead:
            self._ahead.add(digest)
            self._engine.request_newest()
            return
        self.behind = error
        log.error("this coordinator hands no data key over any more", reason=str(error))


class ReceivedKey(msgspec.Struct, frozen=True):
    """A received data key (``dek``), with the note ``give`` and the verdict on its sender.

    ``KeyRequester.require`` decides whether the key may be used.
    """

    dek: Secret
    give: AnyGive
    giver: Verdict
    marks: dict[str, Mark]  # of the collateral for the giver's quote


class KeyRequester:
    """Requests the data key of the store ``store_id`` for a starting process.

    ``quotes`` writes the ages of collateral into ``marks``, because no journal is open yet.
    ``keys`` and ``instance`` identify this process in its request. ``known``: the newest place in
    the journal that this process has seen, or None.
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

    async def send_request(self) -> None:
        """Write a new request for the data key, in place of an earlier request and its answers.

        Raises ``UnavailableError`` if the store or the platform does not answer.
        """
        settings = self._quotes.settings
        ask = exchange.make_ask(self._store_id, self._instance, self._keys, settings, self._known)
        vouched = await self._quotes.vouched(ask)
        self._ask = ask
        await self._notes.put_note(Note("ask", ask.instance, vouched.encode()))

    async def read_answers(self) -> ReceivedKey | None:
        """Return the first verified answer to the present request, or None.

        Raises ``UnavailableError`` if the store does not answer.
        """
        if self._ask is None:
            return None
        refused: list[tuple[Note, NoteRefusedError | QuoteRefusedError]] = []
        received: ReceivedKey | None = None
        for note in await self._notes.notes("give", [self._ask.instance]):
            digest = hashlib.sha256(note.raw).digest()
            if note.name != self._ask.instance or digest in self._done:
                continue
            self._done.add(digest)
            try:
                received = await self._verified_key(note, self._ask)
                break
            except (NoteRefusedError, QuoteRefusedError) as error:
                refused.append((note, error))
        _log_refusals(refused)
        return received

    async def vouched(self, received: ReceivedKey, rule: OriginRule) -> Vouched | None:
        """Return the giver's statement about the line, or None if the statement does not count.

        The statement counts if ``rule`` admits the giver's code and platform, and if the giver has
        the same rule and the same measured settings as this process. Such a giver has verified the
        line as this process would. Raises ``QuoteRefusedError`` if this process's own quote does
        not verify, and ``UnavailableError`` if it cannot be verified now.
        """
        own = (await self._quotes.own()).verdict
        try:
            rule.require_platform(received.giver)
        except OriginRefusedError:
            return None
        if not rule.code.accepts(received.giver, own):
            return None
        return exchange.vouched_by(received.give, self._quotes.settings, rule)

    async def require(self, received: ReceivedKey, state: Running) -> None:
        """Require that the manifest of ``state`` admits the giver of the key.

        ``state``: the state that the received key has opened. Raises ``NoteRefusedError``. Raises
        ``UnavailableError`` if the state knows newer collateral than that of the giver's quote.
        """
        exchange.require_root(received.give, state.keys.root_cert)
        replicas = policy_of(state.manifest).manifest.config.replicas
        require_admitted(received.giver, replicas, await self._quotes.own())
        require_as_new(received.marks, state.collateral_marks)

    async def _verified_key(self, note: Note, ask: Ask) -> ReceivedKey:
        quoted = read_quoted(note.raw)
        give = read_give(quoted.message)
        exchange.require_answers(give, ask.encode(), ask)
        require_bound(quoted, "give")
        verdict = await self._quotes.verify_and_remember(quoted.quote)
        require_bound(quoted, "give", verdict.report_data)
        exchange.require_not_older(give.place, self._known)
        return ReceivedKey(
            exchange.key_in(give, self._keys), give, verdict, dict(self._marks.known())
        )


def _log_refusals(refused: Sequence[tuple[Note, NoteRefusedError | QuoteRefusedError]]) -> None:
    for note, error in refused[:LOGGED]:
        reason = f"{error.reason}: {error.message}"
        log.warning("a note was refused", kind=note.kind, of=note.name.hex(), reason=reason)
    if len(refused) > LOGGED:
        log.warning("more notes were refused", number=len(refused) - LOGGED)
