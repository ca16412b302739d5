"""Run the console until the user ends it, and print a new link if no browser has a session."""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.client.contexts import chosen_context
from keyhouse.console.application import application
from keyhouse.console.connections import CountedWarnings, OwnConnections, Protocol, RefusalPrinter
from keyhouse.console.guard import HOST, OPEN, Gate
from keyhouse.console.page import Console

_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds between two checks for a missing session.
_LOOK: Final = 0.5


class PortInUseError(RefusedError):
    """The console cannot listen on the port."""

    code = "port-taken"


def serve(
    *, first: str, port: int, idle: float, read_only: bool, print_link: Callable[[str], None]
) -> None:
    """Serve the console on ``port`` of loopback (0: any free port) until a signal ends it.

    The signals are SIGINT, SIGTERM and SIGHUP. ``first`` is the context to begin with, or "" for
    the context in use. A session ends after ``idle`` seconds without use. With ``read_only``, the
    console refuses changes. ``print_link`` receives each new link: the first link, and a link after
    the end of a session. Raises ``PortInUseError``, and ``ContextUnusableError`` for an unknown
    context.
    """
    if first:
        chosen_context(first)
    with _listening(port) as listening:
        console = Console(Gate(idle, time.monotonic), first, read_only=read_only)
        asyncio.run(_serve(listening, console, print_link))


def _listening(port: int) -> OwnConnections:
    found = OwnConnections()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
        # Listen before the terminal shows a link, because the user may open the link at once.
        found.listen()
    except OSError as error:
        found.close()
        raise PortInUseError(
            f"the console cannot listen on port {port}: {os_reason(error)}",
            hint="pass --port 0 for any free port",
        ) from None
    return found


class _Server(uvicorn.Server):
    """A server without handlers for signals: this module handles signals.

    uvicorn's own handlers would raise each signal again after the end of the server.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers of signals unchanged during the block."""
        yield


async def _serve(
    listening: OwnConnections, console: Console, print_link: Callable[[str], None]
) -> None:
    port = listening.getsockname()[1]
    settings = uvicorn.Config(
        application(console, port),
        http=Protocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    server = _Server(settings)
    refusals = listening.refusals = RefusalPrinter(time.monotonic, _print_error)
    counted = CountedWarnings(refusals)
    logging.getLogger("uvicorn.error").addFilter(counted)

    def end() -> None:
        # Pages hear of the end at once. Open streams would delay the end by two seconds.
        console.streams.end("ended")
        server.should_exit = True

    links = asyncio.create_task(_links(console.gate, port, print_link, refusals))
    for each in _ENDS:
        asyncio.get_running_loop().add_signal_handler(each, end)
    try:
        await server.serve(sockets=[listening])
    finally:
        links.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await links
        refusals.report(at_once=True)
        logging.getLogger("uvicorn.error").removeFilter(counted)


def _print_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


async def _links(
    gate: Gate, port: int, print_link: Callable[[str], None], refusals: RefusalPrinter
) -> None:
    """Pass a new link to ``print_link`` if ``gate`` has neither a session nor an unused link.

    ``port`` is the console's port. The endless loop also prints the counts of ``refusals``.
    """
    while True:
        refusals.report()
        if gate.is_locked:
            print_link(f"http://{HOST}:{port}{OPEN}?token={gate.new_link()}")
        await asyncio.sleep(_LOOK)
