"""Accepts connections, gives each the TLS context of the moment, ends them in order.

Connections are accepted here and not by the event loop's own server, for three reasons: a
connection counts against the limit from its first byte on, not only after its handshake; one over
the limit costs no handshake; and the context of new connections can change at any time.
"""

import asyncio
import contextlib
import errno
import resource
import socket
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Final

from keyhouse.base.errors import UnavailableError
from keyhouse.base.log import log
from keyhouse.server.net.connections import Connection, Connections
from keyhouse.server.net.handshakes import Handshakes
from keyhouse.server.net.limits import ConnectionLimits
from keyhouse.server.net.listening import bound_socket, listen
from keyhouse.server.net.plain_transport import Plaintext, PlainTransport
from keyhouse.server.net.tls import TlsContext
from keyhouse.server.net.tls_transport import TlsTransport

_ACCEPTS_PER_TURN: Final = 100
_CLOSED_PER_TURN: Final = 32  # for others: until the turn ends they keep their descriptors
_OTHER_DESCRIPTORS: Final = 64  # kept for the store and whatever else opens files
_PAUSE_WITHOUT_DESCRIPTORS: Final = 0.2  # seconds
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Acceptor:
    """Serves one protocol on one address. Everything happens on the running event loop.

    Args:
        connections: what the connections share.
        connect: makes the connection of a generation.
        context: gives the TLS context of the next connection.
        modules: what only connections need; imported when the first one waits to be accepted.
        ready: waited for before a connection gets its context. Where it raises
            ``UnavailableError`` the connection is closed: its client tries again.

    ``turned_away`` counts connections over the limit: each was closed, or another one for it. It
    counts idle ones over their limit, too.
    """

    def __init__(
        self,
        connections: Connections,
        limits: ConnectionLimits,
        connect: Callable[[int], Connection],
        context: Callable[[], TlsContext | Plaintext],
        modules: Sequence[str] = (),
        ready: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.generation = 0
        self.turned_away = 0
        self._limits = limits
        self._handshakes = Handshakes(limits.handshake_bytes)
        self._connections = connections
        self._connect = connect
        self._context_of_now = context
        self._modules = modules
        self._ready = ready
        self._most_connections = 0
        self._socket: socket.socket | None = None
        self._accepting: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int, inherited: socket.socket | None = None) -> None:
        """Listen on ``host`` (empty: all addresses) and ``port`` (0: any free one).

        ``inherited`` is bound there already, for other processes too. Raises ``UnavailableError``
        if nobody can listen at the address.
        """
        listening = inherited or await bound_socket(host, port)
        listen(listening)
        self._socket = listening
        self._most_connections = _possible_connections(self._limits.connections)
        loop = asyncio.get_running_loop()
        self._sweep(loop)
        loop.add_reader(self._socket.fileno(), self._begin if self._modules else self._accept)

    @property
    def port(self) -> int:
        """The TCP port listened on."""
        if self._socket is None:
            raise UnavailableError("the listener does not listen")
        return int(self._socket.getsockname()[1])

    @property
    def is_listening(self) -> bool:
        """Whether connections are accepted."""
        return self._socket is not None

    @property
    def open_connections(self) -> int:
        """How many connections there are, those in their handshake included."""
        return len(self._connections)

    @property
    def failed_handshakes(self) -> int:
        """How many connections never came to speak the protocol."""
        return self._connections.failed_handshakes

    def begin_generation(self) -> int:
        """Begin a generation with the next connection; return its number."""
        self.generation += 1
        return self.generation

    def close_before(self, generation: int) -> None:
        """Close what connected under an older context than that of ``generation``.

        A request that has begun is answered first; a handshake under way is abandoned.
        """
        connections = self._connections
        connections.oldest = max(connections.oldest, generation)
        for connection in connections.all():
            if connection.generation < connections.oldest:
                connection.close()

    async def stop(self, grace: float) -> None:
        """Stop accepting, answer what has been accepted, and close; after ``grace`` seconds abort.

        Idle connections are closed at once. Nothing is open after the call.
        """
        self._stop_accepting()
        connections = self._connections
        connections.stopping = True
        await asyncio.sleep(0)  # a task that never began would not close the socket it was given
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for connection in connections.all():
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await connections.none_left.wait()
        if connections:
            log.warning("connections aborted", count=len(connections))
        for connection in connections.all():
            connection.abort()
        await connections.none_left.wait()
        for future in tuple(connections.waiting):
            future.cancel()
        await asyncio.gather(*connections.waiting, return_exceptions=True)
        if self._sweeper is not None:
            self._sweeper.cancel()

    def _stop_accepting(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _begin(self) -> None:
        """Import what connections need, off the loop, while the first one waits in the backlog."""
        if self._socket is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        task = loop.create_task(self._import())
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    async def _import(self) -> None:
        for name in self._modules:
            await asyncio.to_thread(import_module, name)
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        """Accept what waits, some at a time so that open connections have their turn."""
        turned_away = self.turned_away
        for _ in range(_ACCEPTS_PER_TURN):
            if self._socket is None or self.turned_away - turned_away >= _CLOSED_PER_TURN:
                return
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause_accepting()
                return
            if self.open_connections >= self._most_connections:
                self.turned_away += 1
                if not self._connections.make_room():
                    accepted.close()
                    continue
            accepted.setblocking(False)  # noqa: FBT003 - the standard library's way
            connection = self._connect(self.generation)
            work = self._serve(accepted, connection)
            task = asyncio.get_running_loop().create_task(work)
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)

    def _pause_accepting(self) -> None:
        """Out of descriptors or memory: the backlog waits, so that the loop does not spin."""
        listening = self._socket
        if listening is None:
            return
        log.warning("out of descriptors", connections=self.open_connections)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening.fileno())
        self._pause = loop.call_later(
            _PAUSE_WITHOUT_DESCRIPTORS, loop.add_reader, listening.fileno(), self._accept
        )

    async def _serve(self, accepted: socket.socket, connection: Connection) -> None:
        """Hand the socket to the event loop; from then on the connection lives by itself."""
        begun = False
        try:
            if self._ready is not None:
                await self._ready()
            transport = self._transport(connection)
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: transport, accepted)
            begun = True
        except (OSError, UnavailableError):  # the client has gone already, or shall come again
            pass
        except Exception as error:  # noqa: BLE001 - this task is not awaited; its type is logged
            log.error("connection failed", error=type(error).__qualname__)
        finally:
            if not begun:
                accepted.close()
                connection.abort()
                connection.connection_lost(None)

    def _transport(self, connection: Connection) -> TlsTransport | PlainTransport:
        context = self._context_of_now()
        if isinstance(context, Plaintext):
            return PlainTransport(connection)
        return TlsTransport(context, connection, self._handshakes)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now, before = loop.time(), self._connections.now
        self._connections.look_at_clock(now)
        for connection in self._connections.all():
            connection.expire(now)
        self.turned_away += self._connections.close_idle(before)
        self._sweeper = loop.call_later(self._limits.sweep_interval, self._sweep, loop)


def _possible_connections(wanted: int) -> int:
    """Return how many connections there may be, so that no other part runs out of descriptors."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= wanted + _OTHER_DESCRIPTORS:
        return wanted
    possible = max(1, limit - _OTHER_DESCRIPTORS)
    log.warning("the limit of open files allows few connections", connections=possible)
    return possible
