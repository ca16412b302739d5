"""Tells log and events of refused activations."""

import time
from collections.abc import Callable

import structlog

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.place import beginning, quoted
from keyhouse.coordinator import ActivationRequest
from keyhouse.server.net.pace import Pace
from keyhouse.server.services.events import Events, Refusal

__all__ = ["RefusalLog"]

log = structlog.get_logger(__name__)


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
