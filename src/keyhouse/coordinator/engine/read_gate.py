"""Delay each answer until the view shows all changes made durable before the request.

Several writers share one store, so the view of each may be behind. The gate is a read index, as in
Raft. It reads the end of the store after the request has arrived. Then it waits until the view has
reached that end. So the answer reflects every change that was acknowledged before the request, at
any coordinator, as far as the database shows its newest end (decision 0059).

One read of the end serves all requests that wait when it begins. Later requests wait for the next
read. A store with one writer needs no gate: its view is always the newest. The decision 0043 has
the rejected designs.
"""

import asyncio
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Final, TypeVar

import msgspec

from keyhouse.base.errors import ConflictError, KeyhouseError, UnavailableError
from keyhouse.coordinator.engine.current import place_of
from keyhouse.coordinator.engine.engine import Engine
from keyhouse.journal import Position
from keyhouse.wire.headers import Place

T = TypeVar("T")

LONGEST: Final = 5.0
"""Seconds for the view to reach the end of the store."""

FEW: Final = 4
"""Up to this number of requests, the end is read at once.

With more requests, reads begin ``APART`` seconds apart, so that each read serves more requests.
"""

APART: Final = 0.0005
"""Seconds from the beginning of a read to the beginning of the next read."""

# The shortest wait of event loops.
_TICK: Final = 0.001


class ForkError(ConflictError):
    """The state of this coordinator does not continue the state that its client has seen."""

    code = "fork"


Answering = Callable[[KeyhouseError | None], object]
"""Answers from the confirmed view, or with the reason why the view cannot be confirmed."""


class _Ahead(msgspec.Struct, frozen=True):
    """Requests that wait for the view to reach ``head``, an end of the store."""

    head: Position
    waiting: list[Answering]
    limit: asyncio.TimerHandle
    returns: int  # of the journal to its durable place, before the read of ``head``


class ReadGate:
    """Answers requests once the view of ``engine`` is confirmed to be the newest.

    For the event loop's thread only.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._waiting: list[Answering] = []
        self._ahead: list[_Ahead] = []
        self._confirming: asyncio.Task[None] | None = None
        self._last_read = 0.0  # the beginning of the last read
        engine.current.on_view.append(self._view_changed)

    def call(self, answer: Answering) -> None:
        """Call ``answer`` as soon as the view is confirmed.

        The view is then at the end that the store had after this call, or later. ``answer``
        receives an error if the view cannot be confirmed: the store does not answer, or the view
        does not reach the end of the store, or contradicts it. An exception of ``answer`` goes to
        the loop's exception handler.
        """
        self._waiting.append(answer)
        if self._confirming is None:
            self._confirming = asyncio.create_task(self._confirm_all())

    def confirmed(self, answer: Callable[[KeyhouseError | None], T]) -> "asyncio.Future[T]":
        """Return the result of ``answer``, called as by ``call``. The future may be cancelled."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def resolve(problem: KeyhouseError | None) -> None:
            if result.done():  # the client has gone
                return
            try:
                result.set_result(answer(problem))
            except Exception as error:  # noqa: BLE001 - the error belongs to the caller
                result.set_exception(error)

        self.call(resolve)
        return result

    async def passed(self) -> None:
        """Return when the view is confirmed, as in ``call``.

        Raises ``UnavailableError`` or ``BrokenError`` if the view cannot be confirmed.
        """
        await self.confirmed(_raised)

    def require(self, seen: Place) -> None:
        """Require that the view continues ``seen``. Raises as ``require_seen``."""
        require_seen(self._engine, seen)

    async def _confirm_all(self) -> None:
        """Read the end of the store again and again while requests wait."""
        try:
            while self._waiting:
                await self._space_reads()
                waiting, self._waiting = self._waiting, []
                await self._confirm(waiting)
        finally:
            self._confirming = None

    async def _space_reads(self) -> None:
        if len(self._waiting) > FEW:
            # Requests that arrive meanwhile are read first, and this read of the end serves them
            # too.
            await asyncio.sleep(_TICK if perf_counter() - self._last_read < APART else 0)
        self._last_read = perf_counter()

    async def _confirm(self, waiting: list[Answering]) -> None:
        """Read the end of the store, and answer ``waiting`` once the view has reached this end.

        If the view cannot reach this end, refuse the requests in ``waiting``.
        """
        engine, before = self._engine, self._engine.view.position
        journal, returns = engine.writer.journal, engine.writer.returns
        try:
            head = None if journal is None else await journal.store.head()
        except Exception as error:  # noqa: BLE001 - after any error, no request may wait forever
            engine.queue.request_follow()  # the engine then logs the reason
            _conclude(waiting, error if isinstance(error, KeyhouseError) else _not_confirmed())
            return
        if before is None:  # nothing was journalled when the requests arrived
            _conclude(waiting, None)
        elif head is None or _is_before(head, before):
            engine.queue.request_follow()  # the engine then stops if records are lost
            _conclude(waiting, _not_confirmed())
        elif not self._reached(head, waiting):
            limit = asyncio.get_running_loop().call_later(LONGEST, self._refuse_late, waiting)
            self._ahead.append(_Ahead(head, waiting, limit, returns))
            engine.request_newest()

    def _reached(self, head: Position, waiting: Iterable[Answering]) -> bool:
        """Answer ``waiting`` if the view has reached ``head``; return True if it has."""
        position = self._engine.view.position
        if position is None or position.sequence < head.sequence:
            return False
        known = _known(self._engine, head.sequence)
        contradicts = known is not None and known != head
        _conclude(waiting, _not_confirmed() if contradicts else None)
        return True

    def _view_changed(self) -> None:
        # Not at once: the engine has to answer writers first.
        if self._ahead:
            asyncio.get_running_loop().call_soon(self._advance)

    def _advance(self) -> None:
        ahead, self._ahead = self._ahead, []
        for each in ahead:
            if self._reached(each.head, each.waiting):
                each.limit.cancel()
            elif each.returns != self._engine.writer.returns:  # the store may have lost the head
                each.limit.cancel()
                for answer in each.waiting:
                    self.call(answer)
            else:
                self._ahead.append(each)

    def _refuse_late(self, waiting: list[Answering]) -> None:
        self._ahead = [each for each in self._ahead if each.waiting is not waiting]
        _conclude(waiting, _not_confirmed())


def require_seen(engine: Engine, seen: Place) -> None:
    """Require that the view of ``engine`` continues ``seen``, a place that a client has seen.

    Raises ``UnavailableError`` if the view has not reached the place, and ``ForkError`` if the
    chain value differs. The chain value of an old place is unknown. Then only the numbers of epoch
    and record are compared.
    """
    position = engine.view.position
    if position is None or position.sequence < seen.sequence:
        raise UnavailableError(
            f"the client has seen the state {seen}; this coordinator does not have this state",
            hint="try again later; if the error remains, find out whether the coordinator's store"
            " has lost or hides changes",
        )
    known = _known(engine, seen.sequence)
    same = known is None or place_of(known) == seen
    if not same or position.epoch < seen.epoch:
        raise ForkError(
            f"the client has seen the state {seen}; the state of this coordinator does not continue"
            " this state",
            hint="find out whether the coordinator's store is an older copy, or two copies run",
        )


def _known(engine: Engine, sequence: int) -> Position | None:
    """Return the place after the record with the number ``sequence``.

    None: the record is too old, or after the end of the journal of ``engine``.
    """
    journal = engine.writer.journal
    return None if journal is None else journal.trail.at(sequence)


def _is_before(head: Position, known: Position) -> bool:
    """Return whether a store that ends at ``head`` lacks the place ``known``."""
    return head.sequence < known.sequence or (head.sequence == known.sequence and head != known)


def _conclude(waiting: Iterable[Answering], problem: KeyhouseError | None) -> None:
    for answer in waiting:
        try:
            answer(problem)
        except Exception as error:  # noqa: BLE001 - all other requests still get answers
            context = {"message": "an answer failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)


def _raised(problem: KeyhouseError | None) -> None:
    if problem is not None:
        raise problem


def _not_confirmed() -> UnavailableError:
    return UnavailableError(
        "this coordinator cannot read the newest state now", hint="try again later"
    )
