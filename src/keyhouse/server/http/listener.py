"""The listener of an application over HTTPS, or over HTTP without TLS."""

from collections import Counter
from functools import partial

from keyhouse.server.http.connection import HttpConnection
from keyhouse.server.http.counts import RequestCounts
from keyhouse.server.http.exchange import Application
from keyhouse.server.http.service import HttpService
from keyhouse.server.net.acceptor import Acceptor
from keyhouse.server.net.limits import Limits
from keyhouse.server.net.plain_transport import Plaintext
from keyhouse.server.net.tls import TlsContext


class Listener(Acceptor):
    """Serves an application over HTTPS.

    ``context``: the TLS context of new connections, or ``PLAINTEXT`` for HTTP without TLS.
    ``limits``: None means the defaults of ``Limits``. ``counts`` counts each answer. ``places``: a
    head for the application contains the header ``Keyhouse-At-Least``. With this header, a client
    names a place of the journal.
    """

    def __init__(
        self,
        application: Application,
        context: TlsContext | Plaintext,
        limits: Limits | None = None,
        counts: RequestCounts | None = None,
        *,
        places: bool = False,
    ) -> None:
        self.limits = limits or Limits()
        self._service = HttpService(application, self.limits, counts, places=places)
        connect = partial(HttpConnection, self._service)
        super().__init__(self._service, self.limits, connect, context)

    def in_flight(self) -> Counter[str]:
        """Return the number of admitted requests without an answer, by path. Cost: O(n)."""
        found: Counter[str] = Counter()
        for connection in self.connections.all():
            if isinstance(connection, HttpConnection) and connection.in_flight is not None:
                found[connection.in_flight] += 1
        return found

    def replace_context(self, context: TlsContext) -> int:
        """Serve new connections under ``context``. Return the number of its generation.

        Open connections, and connections in their handshake, continue with their former context
        until ``close_before`` ends them.
        """
        self.context = context
        return self.begin_generation()
