"""Runs the console until its terminal ends it, and prints a link whenever nobody has one."""

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.console.application import application
from keyhouse.console.guard import HOST, OPEN, Gate
from keyhouse.console.page import Console

_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK: Final = 0.5  # seconds between looks whether someone needs a link


class PortTakenError(RefusedError):
    """The console cannot listen on the port."""

    code = "port-taken"


def serve(
    *, first: str, port: int, idle: float, read_only: bool, tell: Callable[[str], None]
) -> None:
    """Serve the console on ``port`` of loopback (0: any) until SIGINT, SIGTERM or SIGHUP.

    ``first``: the context to begin with; "": the one in use. ``idle``: seconds until an unused
    session ends. ``tell`` gets each new link: at the start, and when a session has ended. Raises
    ``PortTakenError``.
    """
    with _listening(port) as listening:
        console = Console(Gate(idle, time.monotonic), first, read_only=read_only)
        asyncio.run(_serve(listening, console, tell))


def _listening(port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
        found.listen()  # before a link is told, which may be opened at once
    except OSError as error:
        found.close()
        raise PortTakenError(
            f"the console cannot listen on port {port}: {os_reason(error)}",
            hint="--port 0 takes any that is free",
        ) from None
    return found


class _Server(uvicorn.Server):
    """A server whose signals are handled here: uvicorn would raise them again after its end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing."""
        yield

    def end(self) -> None:
        """Stop serving."""
        self.should_exit = True


async def _serve(listening: socket.socket, console: Console, tell: Callable[[str], None]) -> None:
    port = listening.getsockname()[1]
    settings = uvicorn.Config(
        application(console, port),
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    server = _Server(settings)
    links = asyncio.create_task(_links(console.gate, port, tell))
    for each in _ENDS:
        asyncio.get_running_loop().add_signal_handler(each, server.end)
    try:
        await server.serve(sockets=[listening])
    finally:
        links.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await links


async def _links(gate: Gate, port: int, tell: Callable[[str], None]) -> None:
    """Tell a new link whenever nobody has a session or a link."""
    while True:
        if gate.is_locked:
            tell(f"http://{HOST}:{port}{OPEN}?token={gate.new_link()}")
        await asyncio.sleep(_LOOK)
