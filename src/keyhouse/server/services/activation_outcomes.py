"""What became of activations since the process began: counted, and refusals logged."""

import time
from collections.abc import Callable
from typing import Final

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.log import log
from keyhouse.base.printable import beginning, quoted
from keyhouse.coordinator import ActivationRequest
from keyhouse.server.net.pace import Pace
from keyhouse.server.services.events import Events, Refusal

UNKNOWN: Final = "unknown"
"""The label of all types that no manifest in force has had: one, whatever clients send."""


class ActivationCounts:
    """Attempts and successes by marble type, refusals by code. Used on the event loop's thread."""

    def __init__(self) -> None:
        self.attempts: Final[dict[str, int]] = {}
        self.successes: Final[dict[str, int]] = {}
        self.refusals: Final[dict[str, int]] = {}  # by the code of the error
        self.without_quote = 0  # successes; only in simulation there are any

    def attempted(self, label: str) -> None:
        """Count a request."""
        self.attempts[label] = self.attempts.get(label, 0) + 1

    def activated(self, label: str, *, quoted: bool) -> None:
        """Count a success."""
        self.successes[label] = self.successes.get(label, 0) + 1
        self.without_quote += not quoted

    def refused(self, problem: KeyhouseError) -> None:
        """Count a refusal. The codes are those of the classes: few."""
        self.refusals[problem.code] = self.refusals.get(problem.code, 0) + 1


class RefusalLog:
    """Used on the event loop's thread. ``pace``: the clock of a ``Pace``."""

    def __init__(
        self, events: Events | None = None, pace: Callable[[], float] = time.monotonic
    ) -> None:
        self._events = events
        self._pace = Pace(pace)

    def refused(self, now: int, request: ActivationRequest, problem: KeyhouseError) -> None:
        """Tell of one refusal, or count it. ``now`` is microseconds since 1970."""
        if untold := self._pace.finished():
            log.warning("more activations were refused", untold=untold)
        if not self._pace.admits():
            return
        reason = str(problem)
        log.warning(
            "an activation was refused",
            marble_type=quoted(request.marble_type),
            uuid=quoted(request.uuid),
            code=problem.code,
            reason=reason,
        )
        if self._events is not None:
            claimed = beginning(request.marble_type), beginning(request.uuid)
            self._events.refused(Refusal(*claimed, problem.code, reason), at=now * 1000)
