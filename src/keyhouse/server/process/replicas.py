"""Requests the data key from serving replicas on a shared store, and sends the key to new replicas.

A store that several coordinators share holds the data key only in sealed form. A new replica leaves
a note with its quote and a public key in the store. A serving replica verifies the quote and
answers with the encrypted data key. The new replica verifies the giver's quote and the line of the
root before use.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from typing import Final, NamedTuple

import msgspec

from keyhouse.attestation import Platform
from keyhouse.attestation.origin.rule import OriginRefusedError, in_words
from keyhouse.authority.instance_keys import InstanceKeys
from keyhouse.base.errors import BrokenError, KeyhouseError, StartAgainError, UnavailableError
from keyhouse.base.log import log
from keyhouse.coordinator import Engine, HostClock, Origin, Process, Running, rebuild
from keyhouse.coordinator.core.state import Member, Recovering
from keyhouse.coordinator.engine.open_engine import forgeable_votes
from keyhouse.coordinator.engine.shared import Shared
from keyhouse.coordinator.hand_off.admission import Own
from keyhouse.coordinator.hand_off.key_switch import SwitchNotes
from keyhouse.coordinator.hand_off.membership import Members
from keyhouse.coordinator.hand_off.notes import NoteProblem, NoteRefusedError
from keyhouse.coordinator.origin.objects import read_log_object
from keyhouse.journal import Opened, Position, StateStorage, Vouched
from keyhouse.journal.shared.key_request import KeyOffer
from keyhouse.journal.shared.storage import DatabaseStorage
from keyhouse.server.process.open_state import quote_checks
from keyhouse.server.process.origin_settings import ORIGIN_SETTINGS
from keyhouse.server.process.settings import SETTINGS, Settings
from keyhouse.server.services.hand_off import KeyRequester, KeySender, OwnQuotes, ReceivedKey
from keyhouse.server.services.quote_checks import ProcessMarks
from keyhouse.wire.kinds.identity import VmIdentity

POLL_EVERY: Final = 1.0
"""Seconds between two polls of a serving replica for requests from new replicas."""

PUBLISH_EVERY: Final = 600.0
"""Seconds until a replica renews its note with a quote. Replicas remove notes after an hour."""

ASK_EVERY: Final = 5.0
"""Seconds until a request without an answer is replaced by a new request."""

_POLL: Final = 0.1  # seconds, chosen: a serving replica answers within one second
_POLLS: Final = 10  # chosen: one second in all


def measured_settings(settings: Settings, platform: Platform) -> bytes:
    """Return the SHA-256 over the measured settings and the kind of ``platform``.

    A replica gives no key to a replica with different settings. The command line is measured with
    the code. So a manifest that admits new code must not thereby admit a different command line.
    The settings about origins are not included, because newer code has to list its predecessors.
    They are compared when one process vouches for the line of another (``OriginRule.digest``).
    """
    names = [
        each.name for each in SETTINGS if each.kind == "measured" and each not in ORIGIN_SETTINGS
    ]
    values = {name: msgspec.to_builtins(getattr(settings, name), enc_hook=str) for name in names}
    encoded = msgspec.json.encode(values | {"platform": platform.kind}, order="sorted")
    return hashlib.sha256(b"keyhouse measured settings v1\0" + encoded).digest()


class Joiner:
    """Requests the data key from serving replicas, for a store that this machine cannot open alone.

    ``requester`` makes a ``KeyRequester`` from the id of the store and the highest known place in
    the journal. ``platform_kind``: the kind of this platform. ``origin`` proves the line of the
    state, and ``read_object`` reads an object of the transparency log by its name for this proof.
    """

    def __init__(
        self,
        requester: Callable[[bytes, Position | None], KeyRequester],
        platform_kind: str,
        origin: Origin,
        read_object: Callable[[Running, str], Awaitable[bytes | None]],
    ) -> None:
        self._new_requester = requester
        self._origin = origin
        self._read_object = read_object
        self._platform_kind = platform_kind
        self._requester: KeyRequester | None = None
        self._received: ReceivedKey | None = None
        self._about: tuple[bytes, Position | None] | None = None
        self._ask_at = 0.0
        self._logged = ""

    async def offered(self, store_id: bytes, known: Position | None) -> KeyOffer | None:
        """Return a data key with a verified quote, or None if none arrives within a second.

        ``store_id``: the id of the store. ``known``: the highest place in the journal that this
        machine has seen, or None.
        """
        loop = asyncio.get_running_loop()
        if self._requester is None or self._about != (store_id, known):
            self._requester, self._ask_at = self._new_requester(store_id, known), loop.time()
            self._about = (store_id, known)
        try:
            if loop.time() >= self._ask_at:
                await self._requester.send_request()
                self._ask_at = loop.time() + ASK_EVERY
            for _ in range(_POLLS):
                self._received = await self._requester.read_answers()
                if self._received is not None:
                    return KeyOffer(self._received.dek, self._received.give.place)
                await asyncio.sleep(_POLL)
        except (UnavailableError, BrokenError) as error:
            if self._logged != str(error):
                log.warning("the data key cannot be requested", reason=str(error))
            self._logged = str(error)
            await asyncio.sleep(POLL_EVERY)
        return None

    async def is_better(self, opened: Opened) -> bool:
        """Return whether to request the data key although this machine has unsealed a data key.

        ``opened`` is the store, opened with this data key. True: the pending update has
        acknowledgements that are newer than the seal. A start with the seal alone would drop these
        acknowledgements; a replica that gives the data key vouches for them.
        """
        state, _ = await asyncio.to_thread(rebuild, opened.replay.base + opened.replay.events)
        return forgeable_votes(opened, state) is not None

    async def accept(self, opened: Opened) -> Vouched | None:
        """Return how far the line is proven, if this process may serve the state in ``opened``.

        None: the state has no line.

        A giver vouches for the line if the measured settings accept the giver's code. Otherwise the
        whole line has to be proven first: then a proven manifest admits the giver.

        Raises ``RefusedError`` or ``UnavailableError``; the caller then waits for another offer.
        """
        self._ask_at = 0.0
        assert self._requester is not None  # noqa: S101 the requester made the offer
        assert self._received is not None  # noqa: S101 likewise
        state, _ = await asyncio.to_thread(rebuild, opened.replay.base + opened.replay.events)
        if state.platform != self._platform_kind:
            raise NoteRefusedError(
                NoteProblem.PLATFORM,
                f"the state was made on the platform {state.platform}; this coordinator runs on"
                f" {self._platform_kind}",
                hint="start on a platform of that kind: no state moves between kinds",
            )
        vouched = await self._requester.vouched(self._received, self._origin.rule)
        try:
            await self._origin.require(state, partial(self._read_object, state), vouched)
        except OriginRefusedError as refused:
            if vouched is not None:
                raise
            raise OriginRefusedError(
                f"the coordinator that gave the key runs {in_words(self._received.giver)}."
                f" This code cannot vouch for the state here: {refused.message}",
                hint="join from another coordinator, or list this code in --predecessors;"
                f" {refused.hint}",
            ) from None
        await self._requester.require(self._received, state)
        mark = self._origin.mark(state)
        return None if mark is None else Vouched(mark, self._received.give.place, is_own=True)


async def member_of(process: Process, keys: InstanceKeys, quotes: OwnQuotes) -> Member:
    """Return the journal's entry about ``process``: its keys and, for people, its identity.

    ``quotes`` makes the quote that states the identity. The identity is empty if this quote does
    not verify now, for example without collateral. Replicas trust only the quote in the note
    (``Members``).
    """
    own: Own | None = None
    try:
        own = await quotes.own()
    except KeyhouseError as error:
        log.warning("this coordinator's own quote does not verify", reason=str(error))
    if own is None:
        return Member(process.instance, keys.signing, keys.kem, b"", b"")
    found = own.verdict
    return Member(
        instance=process.instance,
        signing=keys.signing,
        kem=keys.kem,
        machine=found.ppid,
        unique_id=found.mrenclave if found.vm is None else _digest(found.vm),
        signer_id=found.mrsigner,
        product_id=found.isvprodid,
        security_version=found.isvsvn,
        tcb_status=str(found.tcb_status or ""),
    )


def _digest(vm: VmIdentity) -> bytes:
    return hashlib.sha256(b"keyhouse member v1\0" + msgspec.json.encode(vm)).digest()


class Sharing(NamedTuple):
    """The objects of a coordinator for a store that several coordinators use.

    The quote checks end with the context of ``joining``. Call ``verify_by`` of ``quotes`` with new
    checks before the engine runs.
    """

    process: Process
    keys: InstanceKeys
    shared: SwitchNotes
    quotes: OwnQuotes
    origin: Origin


@asynccontextmanager
async def joining(
    settings: Settings, platform: Platform, storage: StateStorage, process: Process, origin: Origin
) -> AsyncIterator[Sharing]:
    """Let ``storage`` request the data key from serving replicas, until the context ends.

    ``process``: the identity of this process. ``origin`` proves the line of the state. Yield the
    keys, the notes and the checks of this process for the shared store.
    """
    assert isinstance(storage, DatabaseStorage)  # noqa: S101 the settings name a store
    keys, marks, clock = InstanceKeys(), ProcessMarks(), HostClock()
    measured = measured_settings(settings, platform)
    async with quote_checks(settings, platform, marks, clock.moment) as checks:
        with closing(checks):
            own = OwnQuotes(platform, checks, measured)
            member = await member_of(process, keys, own)
            process = msgspec.structs.replace(process, member=member)
            requester = partial(KeyRequester, storage, own, marks, keys, process.instance)
            joiner = Joiner(requester, platform.kind, origin, partial(read_log_object, storage))
            # A replica that replaces the state has other measured settings than the serving
            # replicas. None of them would answer.
            storage.set_join(None if settings.replace_lost_state else joiner)
            try:
                members = Members(member, storage, own, measured)
                yield Sharing(
                    process, keys, SwitchNotes(member, keys, storage, members), own, origin
                )
            finally:
                storage.set_join(None)


@asynccontextmanager
async def among_others(
    settings: Settings, platform: Platform, storage: StateStorage, engine: Engine, sharing: Sharing
) -> AsyncIterator[asyncio.Task[None]]:
    """Serve new replicas until the context ends: publish a quote, and answer their requests.

    In recovery mode, the process requests the key itself. The yielded task ends if this process has
    to start again. Then the end of the context raises ``StartAgainError``.
    """
    assert isinstance(storage, DatabaseStorage)  # noqa: S101 as above
    own, marks = sharing.quotes, ProcessMarks()  # offers are not used here
    requester = partial(KeyRequester, storage, own, marks, sharing.keys, sharing.process.instance)
    joiner = Joiner(requester, platform.kind, sharing.origin, partial(read_log_object, storage))
    storage.set_join(None if settings.replace_lost_state else joiner)
    giver = KeySender(engine, storage, own)
    task = asyncio.create_task(_run_periodic_work(storage, engine, giver, sharing.shared))
    try:
        yield task
    finally:
        storage.set_join(None)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _run_periodic_work(
    storage: DatabaseStorage, engine: Engine, giver: KeySender, shared: Shared
) -> None:
    """Run the periodic work of a replica until the task is cancelled.

    A replica with the data key publishes its quote and presence, and answers requests for the data
    key. A replica in recovery checks for an offered data key. Raises ``StartAgainError``.
    """
    logged, published = "", -PUBLISH_EVERY
    now = asyncio.get_running_loop().time
    while True:
        try:
            if (held := engine.held) is not None:
                if now() - published >= PUBLISH_EVERY:
                    await shared.publish_quote(held.store_id)
                    published = now()
                await storage.announce_presence()
                await giver.answer_requests()
                await engine.begin_line()
                await _share_flush(storage, engine)
            elif isinstance(engine.view.state, Recovering):
                await _require_no_offer(storage)
            logged = ""
        except StartAgainError:
            raise
        except KeyhouseError as error:
            if logged != str(error):
                log.warning("requests of other coordinators cannot be read", reason=str(error))
            logged = str(error)
        except Exception as error:  # noqa: BLE001 notes of others must not end the process
            log.error("a request for the data key failed", error=type(error).__qualname__)
        await asyncio.sleep(POLL_EVERY)


async def _share_flush(storage: DatabaseStorage, engine: Engine) -> None:
    """Let replicas append before their flush, if another replica serves now (decision 0072).

    The list of members in the journal does not suffice, because it has former processes, too. So
    the presence of another replica decides.
    """
    state = engine.view.state
    begins = isinstance(state, Running) and not state.shares_flush
    if begins and await storage.others_present():
        await engine.share_flush()


async def _require_no_offer(storage: DatabaseStorage) -> None:
    """Raise ``StartAgainError`` if another replica offers the data key: recovery is unnecessary."""
    if await storage.is_offered_a_key():
        refused = f"; the last offer was refused: {storage.refusal}" if storage.refusal else ""
        raise StartAgainError(
            f"another coordinator serves the state and offers the data key{refused}",
            hint="start this coordinator again: it receives the data key, and no recovery is"
            " necessary",
        )
