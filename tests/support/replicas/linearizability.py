"""Decides whether a single object, with one call at a time, could produce a concurrent history.

A history is linearizable under this condition: each call has a moment between its beginning and its
answer at which it takes effect, and all answers are right in the order of these moments. Keys are
independent objects, so each key is checked alone. Source: Wing and Gong, "Testing and verifying
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
"""The result of a call without an answer, or with an unclear answer."""

REFUSED: Any = object()
"""The result of a call without any effect, now and later."""


class Call(NamedTuple):
    """A call: ``began`` and ``ended`` on one clock. A call without an answer may have no effect."""

    what: str
    argument: Any
    result: Any
    began: float
    ended: float  # infinite without an answer


Step = Callable[[Any, Call], Any]
"""Returns the state after a call in a state, or ``WRONG`` if the call cannot have its result."""

WRONG: Any = object()


class Object(NamedTuple):
    """The kind of object of a key. ``name`` identifies the kind for porcupine."""

    name: str
    initial: Any
    step: Step
    limit: int = 0


def register(initial: Any = None) -> Object:
    """Return a register: ``write`` sets a value; ``read`` returns the last value."""

    def step(state: Any, call: Call) -> Any:
        if call.what == "write":
            return call.argument
        return state if call.result in (state, UNKNOWN) else WRONG

    return Object("register", initial, step)


def highest(initial: int = 0) -> Object:
    """Return a counter: ``raise`` to a value returns the former value; ``read`` the highest."""

    def step(state: int, call: Call) -> Any:
        if call.result not in (state, UNKNOWN):
            return WRONG
        return max(state, call.argument) if call.what == "raise" else state

    return Object("highest", initial, step)


def counted_up_to(limit: int) -> Object:
    """Return a limit: ``take`` returns whether a place was free; ``read`` the number of takes."""

    def step(state: int, call: Call) -> Any:
        if call.what == "read":
            return state if call.result in (state, UNKNOWN) else WRONG
        left = state < limit
        return min(state + 1, limit) if call.result in (left, UNKNOWN) else WRONG

    return Object("count", 0, step, limit)


def permission(*, given: bool = True) -> Object:
    """Return a permission: ``give`` and ``revoke`` change the state; ``use`` reads the state."""

    def step(state: bool, call: Call) -> Any:  # noqa: FBT001 - the signature of a step
        if call.what == "use":
            return state if call.result in (state, UNKNOWN) else WRONG
        return call.what == "give"

    return Object("permission", given, step)


class History:
    """Calls by key. ``now`` is the clock of begins and ends; None: a count.

    Many threads may use a history at the same time.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self.calls: dict[str, list[Call]] = defaultdict(list)
        self._count = 0
        self._lock = threading.Lock()
        self.now = now or self._next

    def add(self, key: str, call: Call) -> None:
        """Record an answered call."""
        with self._lock:
            self.calls[key].append(call)

    def _next(self) -> float:
        self._count += 1
        return self._count

    def begin(self, key: str, what: str, argument: Any = None) -> Callable[[Any], None]:
        """Record the begin of a call; return the function for the result.

        A call without a recorded result has an unknown outcome.
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
    """Decide for each unknown change whether it happened; leave out absent changes.

    For registers and counters whose changes have different arguments. If no result has an argument,
    the value was overwritten before a read, or was never written: then all answers are right
    without the change. Otherwise the change took effect before the end of the first call with the
    argument as its result. A search with many open calls takes long; no call stays open here.
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
    """Return the first violated key, with calls near the violation, or ""."""
    for key, calls in history.items():
        happened = (call for call in calls if call.result is not REFUSED)
        ordered = sorted(happened, key=lambda call: call.began)
        reached = _furthest(ordered, kinds(key))
        if reached < len(ordered):
            near = "\n".join(map(str, ordered[max(reached - 3, 0) : reached + 4]))
            return f"{key}: not linearizable near call {reached} of {len(ordered)}:\n{near}"
    return ""


def _furthest(calls: Sequence[Call], kind: Object) -> int:
    """Return the number of the furthest possible call, in the order of begins.

    A configuration is the set of effective calls, as bits, and the state after them. If all
    calls can take effect, the result is their number.
    """
    answered = sum(1 << n for n, call in enumerate(calls) if call.ended < math.inf)
    seen = {(0, kind.initial)}
    open_ones = [(0, kind.initial)]
    furthest = 0
    while open_ones:
        done, state = open_ones.pop()
        if done & answered == answered:
            return len(calls)
        # The earliest end first: a call without an answer may just as well never happen.
        for index in sorted(_next_ones(calls, done), key=lambda n: calls[n].ended, reverse=True):
            after = kind.step(state, calls[index])
            configuration = (done | 1 << index, after)
            if after is not WRONG and configuration not in seen:
                seen.add(configuration)
                open_ones.append(configuration)
        furthest = max(furthest, _first_left(done))
    return furthest


def _next_ones(calls: Sequence[Call], done: int) -> Iterator[int]:
    """Yield the next possible calls: each begins before all remaining calls end."""
    limit, candidates = math.inf, list[int]()
    for index in range(_first_left(done), len(calls)):
        if calls[index].began > limit:
            break
        if not done >> index & 1:
            candidates.append(index)
            limit = min(limit, calls[index].ended)
    return (index for index in candidates if calls[index].began <= limit)


def _first_left(done: int) -> int:
    """Return the index of the first call outside of ``done``."""
    return (~done & (done + 1)).bit_length() - 1
