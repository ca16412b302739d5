"""Routes for the audit trail of activations in pages, for counters, and for refused activations."""

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
from keyhouse.wire.field_presence import encoded

PAGE: Final = 1000
"""Largest number of activations in an answer."""

PAGE_BYTES: Final = 1024 * 1024
"""Largest sum of their bytes. A page has at least one activation, whatever its size."""

_LARGEST: Final = 2**63 - 1  # numbers in journals are signed 64-bit integers
# Digits of the largest number.
_DIGITS: Final = 19


class _Who(msgspec.Struct, frozen=True, rename="camel"):
    """The workload of an activation in the audit trail: its marble type and UUID."""

    marble_type: str
    uuid: str


_WHO: Final = msgspec.json.Decoder(_Who)


def read_activations(to: UseCases, view: View, head: Head) -> Answer:
    """Return a page of the audit trail, oldest first, to a user who may update the manifest.

    Activations are numbered from the first activation of the deployment. The parameter ``from`` of
    the query is the first number of the page. Without it, the page has the newest activations.
    ``next`` in the answer is the first number of the next page. The trail has the newest 100,000
    activations.
    """
    begin, following, lines = _page(view, head)
    lines = _bounded(lines)
    entries = tuple(map(encoded, lines))
    return to.answers.success(Activations(entries, begin, following + len(lines)), view)


def read_refused(to: UseCases, view: View, head: Head) -> Admission:
    """Return the activations that this process refused, to a user who may update the manifest.

    Refusals are not part of a view, so the answer is built for each call.
    """
    policy_of(view.running.manifest).authorize_update(head.identity)

    async def fresh(body: bytes) -> Answer:
        del body
        return to.answers.success(to.refusals.newest_first(), view)

    return Admission(0, fresh)


def read_counters(to: UseCases, view: View, head: Head) -> Answer:
    """Return activation limits, and monotonic counters, to a user who may update the manifest.

    The answer has the activation limits of all marble types. It has the monotonic counters of the
    workloads in a page of ``read_activations``. The page ends before it exceeds ``COUNTERS``
    counters. A workload has at most ``COUNTERS`` counters, so each page has room for a workload.
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
    """Return a page of the audit trail as requested start, first number, and activations (JSON).

    The two numbers differ if the start is beyond the end of the trail. Then the page is empty.
    Raises ``UnauthenticatedError``, ``ForbiddenError``, ``BadRequestError``.
    """
    policy_of(view.running.manifest).authorize_update(head.identity)
    audit = view.log.audit
    begin = max(_begin(head.query, audit.end - PAGE), audit.first)
    return begin, min(begin, audit.end), audit.lines(begin, PAGE)


def _bounded(lines: list[bytes]) -> list[bytes]:
    """Return the first ``lines`` with at most ``PAGE_BYTES`` in total, but at least one line."""
    fitting = sum(size <= PAGE_BYTES for size in accumulate(map(len, lines)))
    return lines[: max(fitting, 1)]


def _begin(query: bytes, newest: int) -> int:
    given = short_values(query, "from") if query else []
    if not given:
        return newest
    text = given[0]
    if len(given) > 1 or not _is_place(text):
        raise BadRequestError(
            "the parameter from must be one number, 0 or more",
            fields={"from": "must be one number, 0 or more"},
            hint='send the value of the field "next" of the previous page',
        )
    return int(text)


def _is_place(text: str) -> bool:
    """Return whether ``text`` is a valid number for the start of a page.

    A text with too many digits is refused before its conversion to a number.
    """
    digits = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return digits and int(text) <= _LARGEST
