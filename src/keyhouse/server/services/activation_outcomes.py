"""What became of activations since the process began: counted, logged, and refusals kept.

Refusals are kept in fixed room, for those who look for the reason. Anybody may ask to join, with
any names. Equal refusals are counted, not kept again; a type's push out only its own; and those of
workloads that have not proven what they are never push out one of a workload that has.
"""

import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from keyhouse.attestation import Verdict
from keyhouse.base.errors import KeyhouseError
from keyhouse.base.log import log
from keyhouse.base.printable import beginning, quoted
from keyhouse.coordinator import ActivationRequest
from keyhouse.coordinator.core.policy import Recipe
from keyhouse.coordinator.core.timestamps import timestamp
from keyhouse.server.net.pace import Pace
from keyhouse.server.services.events import LONGEST_REASON, Events, Refusal
from keyhouse.wire.client_api import RefusedActivation, RefusedActivations

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


MOST: Final = 256
"""Different refusals that are kept of workloads whose quote was proven, and as many of others."""

MOST_OF_TYPE: Final = 16
"""Of these, those of one marble type; all types that the manifest does not have are one."""


class _Times(msgspec.Struct, frozen=True):
    """When equal refusals happened, in microseconds since 1970; the UUID of the newest."""

    first: int
    newest: int
    count: int
    uuid: str


class Refusals:
    """Used on the event loop's thread. ``since``: when the process began, microseconds."""

    def __init__(self, since: int) -> None:
        self._since: Final = since
        self._proven: Final = _Kept()
        self._claimed: Final = _Kept()

    def add(
        self,
        now: int,
        request: ActivationRequest,
        recipe: Recipe | None,
        verdict: Verdict | None,
        problem: KeyhouseError,
    ) -> None:
        """Keep a refusal, or count it.

        ``recipe``: of its type; None: the manifest has no such type. ``verdict``: what its quote
        proves; None if it does not verify, or was not made for this workload.
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
        """Return all that are kept."""
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


class _Kept:
    """Different refusals without times and UUIDs, in the order in which they happened last."""

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
    return msgspec.structs.replace(
        about,
        quoted=True,
        unique_id=verdict.mrenclave.hex(),
        signer_id=verdict.mrsigner.hex(),
        mrtd="" if verdict.td is None else verdict.td.mrtd.hex(),
        measurement="" if verdict.snp is None else verdict.snp.measurement.hex(),
        tcb_status=verdict.tcb_status or "",
    )
