"""The audit trail of activations, for operators."""

from itertools import accumulate
from typing import Final

from keyhouse.base.errors import BadRequestError
from keyhouse.coordinator import View, policy_of
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.server.http.query import values
from keyhouse.wire.client_api import Activations
from keyhouse.wire.sent import encoded

__all__ = ["PAGE", "read_activations"]

PAGE: Final = 1000
"""Activations in one answer."""

PAGE_BYTES: Final = 1024 * 1024
"""Bytes of them, unless the first alone has more."""

_LARGEST: Final = 2**63 - 1
_DIGITS: Final = 19  # of the largest


def read_activations(answers: Answers, view: View, head: Head) -> Answer:
    """Answer a page of the trail, oldest first, to a user who may update the manifest.

    Numbers count from the first activation of the deployment. ``from`` is where the page begins,
    else it is the newest one; ``next`` is where the following begins. Older activations than the
    newest 100,000 are forgotten.
    """
    policy_of(view.running.manifest).authorize_update(head.identity)
    audit = view.log.audit
    begin = max(_begin(head.query, audit.end - PAGE), audit.first)
    lines = _bounded(audit.lines(begin, PAGE))
    following = min(begin, audit.end) + len(lines)
    entries = tuple(map(encoded, lines))
    return answers.success(Activations(entries, begin, following), view)


def _bounded(lines: list[bytes]) -> list[bytes]:
    """Return the first of ``lines`` that together are not too large; at least one."""
    fitting = sum(size <= PAGE_BYTES for size in accumulate(map(len, lines)))
    return lines[: max(fitting, 1)]


def _begin(query: bytes, newest: int) -> int:
    given = values(query, "from") if query else []
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
