"""The audit trail of activations, page by page, what was counted, and what was refused."""

from itertools import accumulate
from typing import Final

import msgspec

from keyhouse.base.errors import BadRequestError
from keyhouse.coordinator import Running, View, policy_of
from keyhouse.coordinator.core.decide import COUNTERS
from keyhouse.server.client_api.routes import UseCases
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.server.http.query import short_values
from keyhouse.wire.client_api import ActivationLimit, Activations, Counters, WorkloadCounters
from keyhouse.wire.sent import encoded

PAGE: Final = 1000
"""Activations in one answer."""

PAGE_BYTES: Final = 1024 * 1024
"""Bytes of them, unless the first alone has more."""

_LARGEST: Final = 2**63 - 1
_DIGITS: Final = 19  # of the largest


class _Who(msgspec.Struct, frozen=True, rename="camel"):
    """The workload of a line of the trail."""

    marble_type: str
    uuid: str


_WHO: Final = msgspec.json.Decoder(_Who)


def read_activations(to: UseCases, view: View, head: Head) -> Answer:
    """Answer a page of the trail, oldest first, to a user who may update the manifest.

    Numbers count from the first activation of the deployment. ``from`` is where the page begins,
    else it is the newest one; ``next`` is where the following begins. Older activations than the
    newest 100,000 are forgotten.
    """
    begin, following, lines = _page(view, head)
    lines = _bounded(lines)
    entries = tuple(map(encoded, lines))
    return to.answers.success(Activations(entries, begin, following + len(lines)), view)


def read_refused(to: UseCases, view: View, head: Head) -> Admission:
    """Answer which activations this process has refused, to a user who may update the manifest.

    They are not of a view, whose answers are kept: this one is made for each call.
    """
    policy_of(view.running.manifest).authorize_update(head.identity)

    async def fresh(body: bytes) -> Answer:
        del body
        return to.answers.success(to.refusals.newest_first(), view)

    return Admission(0, fresh)


def read_counters(to: UseCases, view: View, head: Head) -> Answer:
    """Answer what was counted, to a user who may update the manifest.

    That is all limits of activations, of the types in the manifest, and the monotonic counters of
    the workloads in a page as ``read_activations`` has it. The page ends before it would have more
    than ``COUNTERS``, which one workload may have alone.
    """
    begin, following, lines = _page(view, head)
    state, room = view.running, COUNTERS
    found: dict[tuple[str, str], WorkloadCounters] = {}
    for line in lines:
        who = _WHO.decode(line)
        marble = (who.marble_type, who.uuid)
        own = state.counters.get(marble)
        if own is not None and marble not in found:
            room -= len(own)
            if room < 0:
                break
            found[marble] = WorkloadCounters(*marble, dict(sorted(own.items())))
        following += 1
    counters = Counters(_limits(state), tuple(found.values()), begin, following)
    return to.answers.success(counters, view)


def _limits(state: Running) -> dict[str, ActivationLimit]:
    marbles = policy_of(state.manifest).manifest.marbles
    return {
        name: ActivationLimit(state.activations.get(name, 0), marble.max_activations)
        for name, marble in marbles.items()
        if marble.max_activations
    }


def _page(view: View, head: Head) -> tuple[int, int, list[bytes]]:
    """Return where the page begins, the number of its first line, if any, and its lines.

    The two numbers differ for a place beyond the end.

    Raises ``UnauthenticatedError``, ``ForbiddenError``, ``BadRequestError``.
    """
    policy_of(view.running.manifest).authorize_update(head.identity)
    audit = view.log.audit
    begin = max(_begin(head.query, audit.end - PAGE), audit.first)
    return begin, min(begin, audit.end), audit.lines(begin, PAGE)


def _bounded(lines: list[bytes]) -> list[bytes]:
    """Return the first of ``lines`` that together are not too large; at least one."""
    fitting = sum(size <= PAGE_BYTES for size in accumulate(map(len, lines)))
    return lines[: max(fitting, 1)]


def _begin(query: bytes, newest: int) -> int:
    given = short_values(query, "from") if query else []
    if not given:
        return newest
    text = given[0]
    if len(given) > 1 or not _is_place(text):
        raise BadRequestError(
            "the place in the trail cannot be read",
            fields={"from": "must be one number, 0 or more"},
            hint="take it from next of the answer before",
        )
    return int(text)


def _is_place(text: str) -> bool:
    """Tell whether ``text`` is a number that can be a place; a long one is never converted."""
    digits = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return digits and int(text) <= _LARGEST
