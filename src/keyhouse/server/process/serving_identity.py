"""The root certificate that the Client API serves and quotes, which a recovery changes."""

from collections.abc import Callable
from typing import Final

from keyhouse.authority import CoordinatorKeys
from keyhouse.server.http.listener import Listener
from keyhouse.server.net.acceptor import Acceptor
from keyhouse.server.net.tls import TlsContext
from keyhouse.server.services.preparation import Preparation
from keyhouse.server.services.quotes import Quotes


def root_context(keys: CoordinatorKeys) -> TlsContext:
    """Return the TLS context that presents the root certificate."""
    return TlsContext(keys.root_key, [keys.root_cert])


class ServingIdentity:
    """Lets listeners and ``quotes`` change to recovered keys together."""

    def __init__(self, quotes: Quotes, preparation: Preparation) -> None:
        self._quotes: Final = quotes
        self._preparation: Final = preparation
        self._listener: Listener | None = None
        self._others: tuple[Acceptor, ...] = ()

    def served_by(self, listener: Listener, *others: Acceptor) -> None:
        """Let ``listener`` serve the recovered root once there is one.

        ``others`` take their context from the state; their connections end with the old root too.
        """
        self._listener = listener
        self._others = others

    async def ready_for(self, keys: CoordinatorKeys) -> Callable[[], None]:
        """Make quote and TLS context of recovered ``keys``; return what begins to serve them.

        Connections under the temporary root are closed, each after the answer it waits for.
        """
        begin_quotes = await self._preparation.off_loop(lambda: self._quotes.successor(keys))
        context = root_context(keys)

        def serve() -> None:
            begin_quotes()
            if self._listener is not None:
                self._listener.close_before(self._listener.replace_context(context))
            for other in self._others:
                other.close_before(other.begin_generation())

        return serve
