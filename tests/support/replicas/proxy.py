"""A TCP proxy with the faults of networks: drop, delay, reset, refuse, no answer.

This program serves several proxies and reads orders from standard input, a JSON object on each
line. It answers each order with an empty line. A separate process forwards bytes without delays by
the threads of the test.

Dropped bytes are forwarded when the fault ends, because real endpoints send them again.
"""

import asyncio
import json
import socket
import struct
import sys
from collections import deque
from contextlib import suppress
from typing import Any, Final, NamedTuple

__all__ = ["UNANSWERED_BACKLOG", "Order"]

UNANSWERED_BACKLOG: Final = 3
"""The number of connections in a full backlog of 0: the kernel ignores later SYN packets."""

_LINGER: Final = struct.pack("ii", 1, 0)  # close sends RST


class Order(NamedTuple):
    """The behaviour of the proxy at ``port`` from now on.

    ``what``: ``pass``; ``drop`` or ``delay`` (by ``seconds``), in ``directions``: ``up`` is towards
    the server; ``reset`` or ``half-close`` existing connections; ``refuse`` or ``ignore`` new
    connections (``refuse`` also resets existing connections, ``ignore`` drops their bytes);
    ``target``: the ``host`` and the port ``to`` of new connections.
    """

    port: int
    what: str
    directions: tuple[str, ...] = ("up", "down")
    seconds: float = 0.0
    host: str = ""
    to: int = 0


class _Direction:
    """The bytes in one direction of a connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._waiting: deque[tuple[float, bytes]] = deque()  # each with its time to be sent
        self._changed = asyncio.Event()
        self.dropped = False
        self.delay = 0.0

    def change(self, *, dropped: bool, delay: float) -> None:
        self.dropped, self.delay = dropped, delay
        self._changed.set()

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Read all bytes; empty bytes mark the end."""
        now = asyncio.get_running_loop().time
        while True:
            data = await reader.read(65536)
            self._waiting.append((now() + self.delay, data))
            self._changed.set()
            if not data:
                return

    async def forward(self) -> None:
        """Send the bytes at their times, in order."""
        loop = asyncio.get_running_loop()
        while True:
            while self.dropped or not self._waiting:
                self._changed.clear()
                await self._changed.wait()
            at, data = self._waiting[0]
            if at > loop.time():
                await asyncio.sleep(at - loop.time())
                continue
            self._waiting.popleft()
            if not data:
                self._writer.write_eof()
                return
            self._writer.write(data)
            await self._writer.drain()


class _Connection:
    """A client's connection and the connection to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._writers: Final = (client, server)
        self.directions: Final = {"up": _Direction(server), "down": _Direction(client)}

    async def run(self, client: asyncio.StreamReader, server: asyncio.StreamReader) -> None:
        up, down = self.directions["up"], self.directions["down"]
        work = (up.read(client), up.forward(), down.read(server), down.forward())
        tasks = [asyncio.ensure_future(each) for each in work]
        try:
            with suppress(OSError, RuntimeError):  # reset or half closed
                await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for writer in self._writers:
                writer.close()

    def reset(self) -> None:
        for writer in self._writers:
            _reset(writer)

    def half_close(self) -> None:
        """Send the end of data to the server, but not to the client."""
        with suppress(OSError):
            self._writers[1].write_eof()


class _Proxy:
    def __init__(self, port: int, host: str, to: int) -> None:
        self._port, self._host, self._to = port, host, to
        self._connections: set[_Connection] = set()
        self._how = {"up": (False, 0.0), "down": (False, 0.0)}
        self._server: asyncio.Server | None = None
        self._fillers: list[socket.socket] = []
        self._forwards = asyncio.Event()  # set while bytes pass in at least one direction
        self._forwards.set()

    async def listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self._port)

    async def obey(self, order: Order) -> None:
        match order.what:
            case "target":
                self._host, self._to = order.host, order.to
            case "reset":
                self._reset_all()
            case "half-close":
                for connection in self._connections:
                    connection.half_close()
            case _:
                await self._change(order)

    async def _change(self, order: Order) -> None:
        kinds = {"drop": (True, 0.0), "ignore": (True, 0.0), "delay": (False, order.seconds)}
        how = kinds.get(order.what, (False, 0.0))
        self._how |= dict.fromkeys(order.directions, how)
        if all(dropped for dropped, _ in self._how.values()):
            self._forwards.clear()
        else:
            self._forwards.set()
        for connection in self._connections:
            self._apply(connection)
        if order.what in {"refuse", "ignore"}:
            self._stop_listening()
        if order.what == "refuse":
            self._reset_all()
        elif order.what == "ignore":
            self._fill_backlog()
        else:
            self._drop_fillers()
            await self.listen()

    def _apply(self, connection: _Connection) -> None:
        for name, (dropped, delay) in self._how.items():
            connection.directions[name].change(dropped=dropped, delay=delay)

    def _reset_all(self) -> None:
        for connection in [*self._connections]:
            connection.reset()

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self._drop_fillers()

    def _drop_fillers(self) -> None:
        for filler in self._fillers:
            filler.close()
        self._fillers.clear()

    def _fill_backlog(self) -> None:
        """Listen without accepting, and fill the backlog with connections of this process."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        listener.listen(0)
        self._fillers.append(listener)
        for _ in range(UNANSWERED_BACKLOG):
            filler = socket.socket()
            filler.settimeout(0)
            filler.connect_ex(("127.0.0.1", self._port))
            self._fillers.append(filler)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The kernel has answered the SYN. The client receives nothing else until the fault ends.
        await self._forwards.wait()
        try:
            server_reader, server_writer = await asyncio.open_connection(self._host, self._to)
        except OSError:
            _reset(writer)
            return
        connection = _Connection(writer, server_writer)
        self._connections.add(connection)
        self._apply(connection)
        try:
            await connection.run(reader, server_reader)
        finally:
            self._connections.discard(connection)


def _reset(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        found: socket.socket = writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
    writer.transport.abort()


async def _serve(targets: list[dict[str, Any]]) -> None:
    proxies = {each["port"]: _Proxy(each["port"], each["host"], each["to"]) for each in targets}
    for proxy in proxies.values():
        await proxy.listen()
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    _answer()
    while line := await orders.readline():
        order = Order(**json.loads(line))
        await proxies[order.port].obey(order)
        _answer()


def _answer() -> None:
    sys.stdout.write("\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.argv[1])))
