"""Tells log and events of refused activations: strangers cannot fill a disk with them."""

import time
from collections.abc import Callable
from typing import Final

import structlog

from keyhouse.api.events import Events, Refusal
from keyhouse.base.errors import KeyhouseError
from keyhouse.base.place import beginning, quoted
from keyhouse.coordinator import ActivationRequest

__all__ = ["A_SECOND", "RefusalLog"]

log = structlog.get_logger(__name__)

A_SECOND: Final = 20
"""Refusals that are told in one second; of the others only how many there were."""


class RefusalLog:
    """Used on the event loop's thread.

    ``pace``: seconds that always go on. The security time does not, while the host's clock is
    behind the journal: nothing would be told for as long.
    """

    def __init__(
        self, events: Events | None = None, pace: Callable[[], float] = time.monotonic
    ) -> None:
        self._events = events
        self._pace = pace
        self._began = pace()
        self._told = 0
        self._untold = 0

    def refused(self, now: int, request: ActivationRequest, problem: KeyhouseError) -> None:
        """Tell of one refusal, or count it. ``now`` is microseconds since 1970."""
        present = self._pace()
        if present - self._began >= 1:
            if self._untold:
                log.warning("more activations were refused", untold=self._untold)
            self._began, self._told, self._untold = present, 0, 0
        if self._told >= A_SECOND:
            self._untold += 1
            return
        self._told += 1
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
