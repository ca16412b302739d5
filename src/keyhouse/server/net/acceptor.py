"""Accepts connections, gives each the present TLS context, and ends them in order.

The event loop's own server lacks three properties. A connection counts against the limit from the
first byte, not after the handshake. A connection over the limit costs no handshake. And the context
of new connections can change at any time.
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
from keyhouse.server.net.connections import Connection, Connections, Handshakes
from keyhouse.server.net.limits import ConnectionLimits
from keyhouse.server.net.plain_transport import Plaintext, PlainTransport
from keyhouse.server.net.sockets import bound_socket, listen
from keyhouse.server.net.tls import TlsContext
from keyhouse.server.net.tls_transport import TlsTransport

_ACCEPTS_PER_TURN: Final = 100  # chosen: other work has a turn in between
# Connections that a turn closes for others: each keeps a descriptor until the turn ends.
_CLOSED_PER_TURN: Final = 32
# Descriptors for the store and for other files.
_OTHER_DESCRIPTORS: Final = 64
# Seconds.
_PAUSE_WITHOUT_DESCRIPTORS: Final = 0.2
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Acceptor:
    """Serves a protocol on an address. All calls belong to the running event loop.

    Args:
        connections: the common state of the connections.
        limits: the limits for each connection.
        connect: creates the connection for a generation, the number of a TLS context.
        context: the TLS context of new connections, or a function that returns the context of the
            next connection.
        modules: modules that only connections need, imported when the first connection waits.
        ready: awaited before a connection receives its context. If it raises
            ``UnavailableError``, the connection is closed, and the client may connect again.

    ``turned_away`` counts the connections that were closed because of a limit. These are new
    connections above the limit, waiting connections closed for new connections, and idle
    connections above their own limit.
    """

    def __init__(
        self,
        connections: Connections,
        limits: ConnectionLimits,
        connect: Callable[[int], Connection],
        context: TlsContext | Plaintext | Callable[[], TlsContext],
        modules: Sequence[str] = (),
        ready: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.generation = 0
        self.turned_away = 0
        self._limits = limits
        self._handshakes = Handshakes(limits.handshake_bytes)
        self.connections: Final = connections
        self._connect = connect
        self.context = context
        self._modules = modules
        self._ready = ready
        self._socket: socket.socket | None = None
        self._accepting: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int, inherited: socket.socket | None = None) -> None:
        """Listen on ``host`` (empty: all addresses) and ``port`` (0: any free port).

        ``inherited``: a socket that is already bound to this address, possibly for several
        processes. None: bind a new socket. Raises ``UnavailableError`` if the address is not
        available.
        """
        listening = inherited or await bound_socket(host, port)
        listen(listening)
        self._socket = listening
        _fit_descriptors(self.connections)
        loop = asyncio.get_running_loop()
        self._sweep(loop)
        loop.add_reader(self._socket.fileno(), self._begin if self._modules else self._accept)

    @property
    def port(self) -> int:
        """The TCP port of the listener."""
        if self._socket is None:
            raise UnavailableError("the listener has no port: it is not started or has stopped")
        return int(self._socket.getsockname()[1])

    @property
    def is_listening(self) -> bool:
        """Whether the listener accepts connections."""
        return self._socket is not None

    def begin_generation(self) -> int:
        """Begin a new generation of connections, for a new TLS context. Return its number."""
        self.generation += 1
        return self.generation

    def close_before(self, generation: int) -> None:
        """Close the connections of generations before ``generation``.

        A request in progress is answered first. A handshake in progress is aborted.
        """
        connections = self.connections
        connections.oldest = max(connections.oldest, generation)
        for connection in connections.all():
            if connection.generation < connections.oldest:
                connection.close()

    async def stop(self, grace: float) -> None:
        """Stop accepting, answer accepted requests, and close; after ``grace`` seconds abort.

        Idle connections close at once. No connection is open after the call.
        """
        self._stop_accepting()
        connections = self.connections
        connections.stopping = True
        # A task that never began would not close the socket.
        await asyncio.sleep(0)
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
        """Import the modules of connections in a thread, while the first connection waits."""
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
        """Accept waiting connections, a few at a time, so that open connections continue."""
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
            if self.connections.exposed >= self.connections.most:
                self.turned_away += 1
                if not self.connections.make_room():
                    accepted.close()
                    continue
            accepted.setblocking(False)  # noqa: FBT003 - the standard library's way
            connection = self._connect(self.generation)
            work = self._serve(accepted, connection)
            task = asyncio.get_running_loop().create_task(work)
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)

    def _pause_accepting(self) -> None:
        """Pause: without descriptors or memory, the loop would spin on the backlog."""
        listening = self._socket
        if listening is None:
            return
        log.warning("out of descriptors", connections=len(self.connections))
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening.fileno())
        self._pause = loop.call_later(
            _PAUSE_WITHOUT_DESCRIPTORS, loop.add_reader, listening.fileno(), self._accept
        )

    async def _serve(self, accepted: socket.socket, connection: Connection) -> None:
        """Connect the socket ``accepted`` to its transport. Then ``connection`` needs no task."""
        begun = False
        try:
            if self._ready is not None:
                await self._ready()
            transport = self._transport(connection)
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: transport, accepted)
            begun = True
        # The client has disconnected, or has to connect again.
        except (OSError, UnavailableError):
            pass
        except Exception as error:  # noqa: BLE001 - this task is not awaited; the log has the type
            log.error("connection failed", error=type(error).__qualname__)
        finally:
            if not begun:
                accepted.close()
                connection.abort()
                connection.connection_lost(None)

    def _transport(self, connection: Connection) -> TlsTransport | PlainTransport:
        context = self.context() if callable(self.context) else self.context
        if isinstance(context, Plaintext):
            return PlainTransport(connection)
        return TlsTransport(context, connection, self._handshakes)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now, before = loop.time(), self.connections.now
        self.connections.set_time(now)
        for connection in self.connections.all():
            connection.expire(now)
        self.turned_away += self.connections.close_idle(before)
        self._sweeper = loop.call_later(self._limits.sweep_interval, self._sweep, loop)


def _fit_descriptors(connections: Connections) -> None:
    """Lower the maxima of ``connections``, in proportion, if the limit of open files is lower."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections.most + connections.most_protected
    if limit == resource.RLIM_INFINITY or limit >= wanted + _OTHER_DESCRIPTORS:
        return
    possible = max(1, limit - _OTHER_DESCRIPTORS)
    log.warning("the limit of open files allows few connections", connections=possible)
    connections.most_protected = connections.most_protected * possible // wanted
    connections.most = possible - connections.most_protected
