"""The outcomes of activations in this process: counters, log entries, and stored refusals.

Refusals help users to find the reason, so the newest stay in memory, within fixed limits. Everybody
can send activations with any names. So equal refusals are counted and stored once. A refusal
displaces only refusals of the same marble type. A refusal without a verified quote never displaces
a refusal with a verified quote.
"""

import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from keyhouse.attestation import Verdict
from keyhouse.base.errors import KeyhouseError
from keyhouse.base.log import log
from keyhouse.base.log_texts import ACTIVATION_REFUSED
from keyhouse.base.printable import beginning, quoted
from keyhouse.coordinator import ActivationRequest
from keyhouse.coordinator.core.policy import Recipe
from keyhouse.coordinator.core.update_log import timestamp
from keyhouse.server.logs import Pace
from keyhouse.server.services.events import LONGEST_REASON, Events, RefusalEvent
from keyhouse.wire.client_api import RefusedActivation, RefusedActivations

UNKNOWN: Final = "unknown"
"""The label of all types that no manifest in force had. A single label, whatever clients send."""


class ActivationCounts:
    """Counts attempts, successes and refusals. Use on the event loop's thread only."""

    def __init__(self) -> None:
        self.attempts: Final[dict[str, int]] = {}
        self.successes: Final[dict[str, int]] = {}
        # By the code of the error.
        self.refusals: Final[dict[str, int]] = {}
        # Successes without a quote, which exist only in simulation.
        self.without_quote = 0

    def attempted(self, label: str) -> None:
        """Count a request for an activation; ``label`` is the label in metrics."""
        self.attempts[label] = self.attempts.get(label, 0) + 1

    def activated(self, label: str, *, quoted: bool) -> None:
        """Count a successful activation; ``quoted``: the workload has sent a quote."""
        self.successes[label] = self.successes.get(label, 0) + 1
        self.without_quote += not quoted

    def refused(self, problem: KeyhouseError) -> None:
        """Count a refusal by the code of ``problem``. Each error class has one code."""
        self.refusals[problem.code] = self.refusals.get(problem.code, 0) + 1


class RefusalLog:
    """Logs refused activations, at a limited rate. Use on the event loop's thread only.

    ``events`` also receives each logged refusal. ``pace``: a clock in seconds, for the rate.
    """

    def __init__(
        self, events: Events | None = None, pace: Callable[[], float] = time.monotonic
    ) -> None:
        self._events = events
        self._pace = Pace(pace)

    def refused(self, now: int, request: ActivationRequest, problem: KeyhouseError) -> None:
        """Log a refusal with its reason ``problem``, or only count the refusal above the rate.

        ``now``: microseconds since 1970.
        """
        if suppressed := self._pace.finished():
            log.warning("more activations were refused", suppressed=suppressed)
        if not self._pace.admits():
            return
        reason = str(problem)
        log.warning(
            ACTIVATION_REFUSED,
            marble_type=quoted(request.marble_type),
            uuid=quoted(request.uuid),
            code=problem.code,
            reason=reason,
        )
        if self._events is not None:
            claimed = beginning(request.marble_type), beginning(request.uuid)
            self._events.refused(RefusalEvent(*claimed, problem.code, reason), at=now * 1000)


MOST: Final = 256
"""Largest number of stored refusals with a verified quote, and of stored refusals without."""

MOST_OF_TYPE: Final = 16
"""Largest number of these for a marble type. All unknown types count as a single type."""


class _Times(msgspec.Struct, frozen=True):
    """The times of equal refusals, in microseconds since 1970, and the UUID of the newest."""

    first: int
    newest: int
    count: int
    uuid: str


class Refusals:
    """Stores refused activations for users. Use on the event loop's thread only.

    ``since``: the time from which refusals are stored, in microseconds since 1970.
    """

    def __init__(self, since: int) -> None:
        self._since: Final = since
        self._proven: Final = _StoredRefusals()
        self._claimed: Final = _StoredRefusals()

    def add(
        self,
        now: int,
        request: ActivationRequest,
        recipe: Recipe | None,
        verdict: Verdict | None,
        problem: KeyhouseError,
    ) -> None:
        """Store a refusal, or count it if an equal refusal is stored.

        ``now``: microseconds since 1970. ``recipe``: of the requested marble type; None if the
        manifest does not have this type. ``verdict``: on the workload's own quote; None if no such
        quote was verified. ``problem``: the reason of the refusal.
        """
        about = RefusedActivation(
            marble_type=beginning(request.marble_type),
            package="" if recipe is None else beginning(recipe.marble.package),
            code=problem.code,
            reason=beginning(problem.message, LONGEST_REASON),
            hint=beginning(problem.hint, LONGEST_REASON),
        )
        if verdict is None:
            self._claimed.add(recipe, about, now, request.uuid)
        else:
            self._proven.add(recipe, _measured(about, verdict), now, request.uuid)

    def newest_first(self) -> RefusedActivations:
        """Return all stored refusals, in the order of their newest occurrence, newest first."""
        kept = sorted((*self._proven.items, *self._claimed.items), key=lambda each: -each[1].newest)
        found = tuple(
            msgspec.structs.replace(
                about,
                time=timestamp(times.newest),
                first=timestamp(times.first),
                count=times.count,
                uuid=times.uuid,
            )
            for about, times in kept
        )
        return RefusedActivations(found, timestamp(self._since))


class _StoredRefusals:
    """Stored refusals, in the order of their last occurrence. Equal refusals are stored once.

    Refusals are equal if they differ only in times and UUIDs.
    """

    def __init__(self) -> None:
        self._times: dict[tuple[str, RefusedActivation], _Times] = {}

    @property
    def items(self) -> Iterable[tuple[RefusedActivation, _Times]]:
        return ((about, times) for (_, about), times in self._times.items())

    def add(self, recipe: Recipe | None, about: RefusedActivation, now: int, uuid: str) -> None:
        key = "" if recipe is None else recipe.marble_type, about
        known = self._times.pop(key, None)
        if known is None:
            self._make_room(key[0])
        first, count = (now, 0) if known is None else (known.first, known.count)
        self._times[key] = _Times(first, now, count + 1, beginning(uuid))

    def _make_room(self, marble_type: str) -> None:
        same = [key for key in self._times if key[0] == marble_type]
        if len(same) >= MOST_OF_TYPE:
            del self._times[same[0]]
        elif len(self._times) >= MOST:
            del self._times[next(iter(self._times))]


def _measured(about: RefusedActivation, verdict: Verdict) -> RefusedActivation:
    shown = verdict.measured.in_hex()
    fields = {name: shown[name] for name in RefusedActivation.__struct_fields__ if name in shown}
    return msgspec.structs.replace(about, quoted=True, **fields)
