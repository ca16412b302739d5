"""One exchange with a coordinator: a request, tried as often as its rules allow, and its answer."""

import time
from collections.abc import Callable

import msgspec

from keyhouse.client.errors import Unreachable
from keyhouse.client.http.retries import Retries, Timeouts, pause_before
from keyhouse.client.steps import Answer, Request, Steps, ask, pause

__all__ = ["Rules", "exchange"]


class Rules(msgspec.Struct, frozen=True):
    """How long and how often to try."""

    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()


def exchange(
    request: Request, rules: Rules, fresh: Callable[[], None] = lambda: None
) -> Steps[Answer]:
    """Return the answer to ``request``. ``fresh`` is called before each attempt.

    Raises ``Unreachable`` as the last attempt did, and at once everything that is no reason to try
    again.
    """
    deadline = time.monotonic() + rules.timeouts.total
    timed = msgspec.structs.replace(request, deadline=deadline)
    attempt = 0
    while True:
        fresh()
        outcome: Answer | Unreachable
        try:
            outcome = yield from ask(timed)
        except Unreachable as unreachable:
            outcome = unreachable
        attempt += 1
        left = deadline - time.monotonic()
        seconds = pause_before(attempt, request.method, outcome, rules.retries, left)
        if seconds is None:
            if isinstance(outcome, Unreachable):
                raise outcome
            return outcome
        yield from pause(seconds)
