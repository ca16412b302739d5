"""Tells whether a history of concurrent calls could have come from one object, a call at a time.

A history is linearizable if each call can be given a moment between its beginning and its answer at
which it takes effect at once, so that all answers are right in the order of these moments. Keys are
independent objects, so each is checked alone. Source: Wing and Gong, "Testing and verifying
concurrent objects" (1993); Lowe, "Testing for linearizability" (2017): configurations that were
reached before are not searched again.
"""

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = [
    "REFUSED",
    "UNKNOWN",
    "Call",
    "History",
    "Step",
    "counted_up_to",
    "highest",
    "permission",
    "register",
    "settled",
    "violation",
]

UNKNOWN: Any = object()
"""The result of a call that was not answered, or whose outcome was not told."""

REFUSED: Any = object()
"""The result of a call that certainly had no effect, and never will."""


class Call(NamedTuple):
    """A call: ``began`` and ``ended`` on one clock. Without an answer it may never take effect."""

    what: str
    argument: Any
    result: Any
    began: float
    ended: float  # infinite without an answer


Step = Callable[[Any, Call], Any]
"""Returns the state after a call in a state, or ``WRONG`` if its result cannot come of that."""

WRONG: Any = object()


class Object(NamedTuple):
    """What a key is: ``name`` says it to others who judge."""

    name: str
    initial: Any
    step: Step
    limit: int = 0


def register(initial: Any = None) -> Object:
    """``write`` a value; ``read`` the last one."""

    def step(state: Any, call: Call) -> Any:
        if call.what == "write":
            return call.argument
        return state if call.result in (state, UNKNOWN) else WRONG

    return Object("register", initial, step)


def highest(initial: int = 0) -> Object:
    """``raise`` to a value, which gives the one before; ``read`` the highest."""

    def step(state: int, call: Call) -> Any:
        if call.result not in (state, UNKNOWN):
            return WRONG
        return max(state, call.argument) if call.what == "raise" else state

    return Object("highest", initial, step)


def counted_up_to(limit: int) -> Object:
    """``take`` one of ``limit``, which gives whether there was one left; ``read`` how many went."""

    def step(state: int, call: Call) -> Any:
        if call.what == "read":
            return state if call.result in (state, UNKNOWN) else WRONG
        left = state < limit
        return min(state + 1, limit) if call.result in (left, UNKNOWN) else WRONG

    return Object("count", 0, step, limit)


def permission(*, given: bool = True) -> Object:
    """``give`` or ``revoke`` it; ``use`` tells whether it was there."""

    def step(state: bool, call: Call) -> Any:  # noqa: FBT001 - as a step has it
        if call.what == "use":
            return state if call.result in (state, UNKNOWN) else WRONG
        return call.what == "give"

    return Object("permission", given, step)


class History:
    """Calls by key, as they begin and end. ``now`` is their clock: a count, if there is none.

    Used by many threads at a time.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self.calls: dict[str, list[Call]] = defaultdict(list)
        self._count = 0
        self._lock = threading.Lock()
        self.now = now or self._next

    def add(self, key: str, call: Call) -> None:
        """Note a call that was answered."""
        with self._lock:
            self.calls[key].append(call)

    def _next(self) -> float:
        self._count += 1
        return self._count

    def begin(self, key: str, what: str, argument: Any = None) -> Callable[[Any], None]:
        """Note that a call begins; call what is returned with its result when it is answered.

        Nothing else may be known of a call that is never ended.
        """
        with self._lock:
            calls, began = self.calls[key], self.now()
            index = len(calls)
            calls.append(Call(what, argument, UNKNOWN, began, math.inf))

        def end(result: Any) -> None:
            ended = math.inf if result is UNKNOWN else self.now()
            calls[index] = Call(what, argument, result, began, ended)

        return end


def settled(calls: Sequence[Call]) -> list[Call]:
    """Decide for each change of unknown outcome whether it happened; leave out those that did not.

    For registers and counters whose changes have different arguments. An argument that nobody saw
    as a result was overwritten before it was seen, if it was ever written: then all answers are
    right without it. One that was seen took effect before the first call that saw it ended. A
    search with many open calls takes long; this leaves none.
    """
    seen: dict[Any, float] = {}
    for call in calls:
        if call.result not in {UNKNOWN, REFUSED, None}:
            seen[call.result] = min(call.ended, seen.get(call.result, math.inf))
    found = []
    for call in calls:
        if call.result is not UNKNOWN:
            found.append(call)
        elif call.argument in seen:
            found.append(call._replace(ended=seen[call.argument]))
    return found


def violation(history: Mapping[str, Sequence[Call]], kinds: Callable[[str], Object]) -> str:
    """Return which key was not as ``kinds`` says, and near which call; empty if all were."""
    for key, calls in history.items():
        happened = (call for call in calls if call.result is not REFUSED)
        ordered = sorted(happened, key=lambda call: call.began)
        reached = _furthest(ordered, kinds(key))
        if reached < len(ordered):
            near = "\n".join(map(str, ordered[max(reached - 3, 0) : reached + 4]))
            return f"{key}: not linearizable near call {reached} of {len(ordered)}:\n{near}"
    return ""


def _furthest(calls: Sequence[Call], kind: Object) -> int:
    """Return how many of ``calls``, by beginning, can have taken effect; their number if all can.

    A configuration is the set of calls that took effect, as bits, and the state after them.
    """
    answered = sum(1 << n for n, call in enumerate(calls) if call.ended < math.inf)
    seen = {(0, kind.initial)}
    open_ones = [(0, kind.initial)]
    furthest = 0
    while open_ones:
        done, state = open_ones.pop()
        if done & answered == answered:
            return len(calls)
        # Those first that have to end first: what was never answered may as well never happen.
        for index in sorted(_next_ones(calls, done), key=lambda n: calls[n].ended, reverse=True):
            after = kind.step(state, calls[index])
            configuration = (done | 1 << index, after)
            if after is not WRONG and configuration not in seen:
                seen.add(configuration)
                open_ones.append(configuration)
        furthest = max(furthest, _first_left(done))
    return furthest


def _next_ones(calls: Sequence[Call], done: int) -> Iterator[int]:
    """Yield the calls that may take effect next: those that began before any other one ended."""
    limit, candidates = math.inf, list[int]()
    for index in range(_first_left(done), len(calls)):
        if calls[index].began > limit:
            break
        if not done >> index & 1:
            candidates.append(index)
            limit = min(limit, calls[index].ended)
    return (index for index in candidates if calls[index].began <= limit)


def _first_left(done: int) -> int:
    """Return the number of the first call that is not in ``done``."""
    return (~done & (done + 1)).bit_length() - 1
