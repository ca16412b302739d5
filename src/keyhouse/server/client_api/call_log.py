"""Who called what, told at the level debug: for development, where it is wanted line by line.

Names of users and secrets are the manifest's, which is public; no value is told.
"""

from typing import Final, Self

import msgspec

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.log import log
from keyhouse.base.printable import beginning
from keyhouse.coordinator import Operation, Running, View, policy_of
from keyhouse.server.client_api.routes import Route
from keyhouse.server.http.exchange import Head
from keyhouse.server.http.query import values

_NOBODY: Final = "nobody"


class CallLog:
    """Used on the event loop's thread. What ``view`` has in its update log already is not told."""

    def __init__(self, view: View) -> None:
        self._told = len(view.log)

    @classmethod
    def if_wanted(cls, view: View) -> Self | None:
        """Return a log; None at a higher level: calls are not slowed down by what is not told."""
        return cls(view) if log.tells("debug") else None

    def answered(self, view: View, head: Head, route: Route) -> None:
        """Tell which secrets were read, and what has changed."""
        if route.operation is Operation.READ_SECRETS:
            names = [beginning(name) for name in values(head.query, "s")]
            log.debug("secrets were read", user=_caller(view, head), secrets=names)
        for line in view.log.lines(self._told):
            log.debug("the update log has a new entry", entry=msgspec.json.decode(line))
        self._told = len(view.log)

    def refused(self, view: View, head: Head, problem: KeyhouseError) -> None:
        """Tell why a call was refused."""
        call = f"{head.method} {beginning(head.path)}"
        log.debug("a call was refused", call=call, user=_caller(view, head), reason=problem.message)


def _caller(view: View, head: Head) -> str:
    """Return the name of the user who calls."""
    state = view.state
    if not isinstance(state, Running) or head.identity is None:
        return _NOBODY
    return policy_of(state.manifest).permissions.find_user(head.identity) or _NOBODY
