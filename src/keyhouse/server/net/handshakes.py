"""Limits the cost of a listener's handshakes, and logs refused handshakes."""

from typing import Final

from keyhouse.base.log import log
from keyhouse.base.log_texts import HANDSHAKE_REFUSED
from keyhouse.server.logs import Pace

COSTLY_KEY: Final = "the key of the client's certificate costs too much to check"
TOO_LARGE: Final = "what the client sends is too large, its certificates above all"


class Handshakes:
    """Limits the handshakes of a listener, and logs refused handshakes at a limited rate.

    Use on the event loop's thread only.

    ``most_bytes``: the bytes that a client may send before its handshake is complete.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._pace = Pace()

    def refused(self, reason: str) -> None:
        """Log a refused handshake with its ``reason``. Only count it if the log has too many."""
        if suppressed := self._pace.finished():
            log.warning("more TLS handshakes were refused", suppressed=suppressed)
        if self._pace.admits():
            log.warning(HANDSHAKE_REFUSED, reason=reason)
