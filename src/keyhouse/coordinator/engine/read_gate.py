"""Keeps answers back until the view is known to show all that others have written before.

With several writers of one store the view of each may be behind. An answer is made from the newest
state if the request came before a look at the store's head began, and the view is at that head or
past it. One look at a time serves all requests that wait; those that come meanwhile wait for the
next. With one writer there is no gate: its view is always the newest.
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
"""Seconds that a view may take to reach the store's head."""

FEW: Final = 4
"""Requests that have a look at once; for more, looks are ``APART``: each then serves more."""

APART: Final = 0.0005
"""Seconds from the beginning of a look to that of the next."""

_TICK: Final = 0.001  # what event loops can wait at least


class ForkError(ConflictError):
    """The state of this coordinator does not continue what its client has seen."""

    code = "fork"


Answering = Callable[[KeyhouseError | None], object]
"""Answers from the view, which is confirmed now, or with the reason why it cannot be."""


class _Ahead(msgspec.Struct, frozen=True):
    """Requests that wait for the view to reach ``head``."""

    head: Position
    waiting: list[Answering]
    limit: asyncio.TimerHandle


class ReadGate:
    """Confirms the views of ``engine``. Used on the event loop's thread only."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._waiting: list[Answering] = []
        self._ahead: list[_Ahead] = []
        self._looking: asyncio.Task[None] | None = None
        self._looked = 0.0  # when the last look began
        engine.on_view(self._view_changed)

    def call(self, answer: Answering) -> None:
        """Call ``answer`` as soon as the view is confirmed.

        It gets the reason where that cannot be: the store does not answer, or the view does not
        reach its head, or contradicts it. What it raises goes to the loop's exception handler.
        """
        self._waiting.append(answer)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())

    def confirmed(self, answer: Callable[[KeyhouseError | None], T]) -> "asyncio.Future[T]":
        """Return what ``answer`` returns, called as by ``call``. The future may be cancelled."""
        given: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def give(problem: KeyhouseError | None) -> None:
            if given.done():  # its client has gone
                return
            try:
                given.set_result(answer(problem))
            except Exception as error:  # noqa: BLE001 - it belongs to the caller
                given.set_exception(error)

        self.call(give)
        return given

    async def passed(self) -> None:
        """Return when the view is confirmed. Raises ``UnavailableError``, ``BrokenError``."""
        await self.confirmed(_raised)

    def require(self, seen: Place) -> None:
        """Require that the view continues ``seen``, a place that a client has seen.

        Of places long ago the chain values are not known any more; then the numbers have to do.
        Raises ``UnavailableError`` if the view does not reach it, ``ForkError``.
        """
        position = self._engine.view.position
        if position is None or position.sequence < seen.sequence:
            raise UnavailableError(
                f"this coordinator cannot see the state {seen}, which its client has seen",
                hint="try again later; if it stays so, its store has lost changes or hides them",
            )
        known = self._engine.place_at(seen.sequence)
        same = known is None or place_of(known) == seen
        if not same or position.epoch < seen.epoch:
            raise ForkError(
                f"the state of this coordinator does not continue {seen}, which its client has"
                " seen",
                hint="an older copy of its store was put back, or two copies run: find out which",
            )

    async def _look(self) -> None:
        """Look at the store's head as long as requests wait for that."""
        try:
            while self._waiting:
                await self._keep_apart()
                waiting, self._waiting = self._waiting, []
                await self._confirm(waiting)
        finally:
            self._looking = None

    async def _keep_apart(self) -> None:
        if len(self._waiting) > FEW:
            # What other clients have sent meanwhile is read first, and served by the same look.
            await asyncio.sleep(_TICK if perf_counter() - self._looked < APART else 0)
        self._looked = perf_counter()

    async def _confirm(self, waiting: list[Answering]) -> None:
        """Answer ``waiting`` from the first view at the head or past it, or refuse them."""
        engine, before = self._engine, self._engine.view.position
        try:
            head = await engine.head()
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            engine.look()  # finds out more, and says so
            _conclude(waiting, error if isinstance(error, KeyhouseError) else _not_confirmed())
            return
        if before is None:  # nothing was journalled when the requests came
            _conclude(waiting, None)
        elif head is None or _is_before(head, before):
            engine.look()  # finds out whether records were lost, and stops the engine then
            _conclude(waiting, _not_confirmed())
        elif not self._reached(head, waiting):
            limit = asyncio.get_running_loop().call_later(LONGEST, self._give_up, waiting)
            self._ahead.append(_Ahead(head, waiting, limit))
            engine.look()

    def _reached(self, head: Position, waiting: Iterable[Answering]) -> bool:
        """Answer ``waiting`` if the view is at ``head`` or past it; return whether it is."""
        position = self._engine.view.position
        if position is None or position.sequence < head.sequence:
            return False
        known = self._engine.place_at(head.sequence)
        contradicts = known is not None and known != head
        _conclude(waiting, _not_confirmed() if contradicts else None)
        return True

    def _view_changed(self) -> None:
        if self._ahead:  # not at once: the engine has writers to answer
            asyncio.get_running_loop().call_soon(self._advance)

    def _advance(self) -> None:
        ahead, self._ahead = self._ahead, []
        for each in ahead:
            if self._reached(each.head, each.waiting):
                each.limit.cancel()
            else:
                self._ahead.append(each)

    def _give_up(self, waiting: list[Answering]) -> None:
        self._ahead = [each for each in self._ahead if each.waiting is not waiting]
        _conclude(waiting, _not_confirmed())


def _is_before(head: Position, known: Position) -> bool:
    """Tell whether a store at ``head`` lacks what was known before it was looked at."""
    return head.sequence < known.sequence or (head.sequence == known.sequence and head != known)


def _conclude(waiting: Iterable[Answering], problem: KeyhouseError | None) -> None:
    for answer in waiting:
        try:
            answer(problem)
        except Exception as error:  # noqa: BLE001 - others are answered all the same
            told = {"message": "an answer failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)


def _raised(problem: KeyhouseError | None) -> None:
    if problem is not None:
        raise problem


def _not_confirmed() -> UnavailableError:
    return UnavailableError(
        "this coordinator cannot read the newest state now", hint="try again later"
    )
