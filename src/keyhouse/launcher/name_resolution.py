"""Deadlines that hold during the resolution of names.

The system's resolver cannot be interrupted. While a cluster starts, several name servers and search
domains may not answer, and the resolver takes minutes. asyncio calls the resolver on threads, and
waits for these threads at its end. Other libraries call the resolver on the thread of their caller.
In both cases neither a deadline nor a signal could end the wait. This module runs the resolver on
daemon threads, and never waits for their end.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from keyhouse.base.process.threads import start_without_signals
from keyhouse.launcher.errors import NotReachableError

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` as ``asyncio.run`` does, without a wait for name look-ups at the end."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


def within(seconds: float, work: Callable[[], T]) -> T:
    """Run ``work`` on a thread, and return its result.

    After ``seconds`` without a result, raise ``NotReachableError``. Then the thread continues, and
    its result is dropped.
    """
    outcome = _start_thread(work)
    try:
        return outcome.result(seconds)
    except TimeoutError:
        if outcome.done():  # ``work`` ended at the last moment, or raised a TimeoutError itself
            return outcome.result()
        raise NotReachableError(
            "the coordinator did not prove its identity in time",
            hint="check the address and its resolution, and that the coordinator runs",
        ) from None


class _Loop(asyncio.SelectorEventLoop):
    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 as the base class has it
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """Return the addresses from the system's resolver. Raises ``OSError``."""
        ask = partial(socket.getaddrinfo, host, port, family, type, proto, flags)
        return await asyncio.wrap_future(_start_thread(ask), loop=self)


def _start_thread(work: Callable[[], T]) -> "Future[T]":
    """Start ``work`` on its own daemon thread, and return the future with its result."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # a cancellation could not stop the thread

    def run_work() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 the waiting thread raises it
            outcome.set_exception(error)

    start_without_signals(threading.Thread(target=run_work, name="lookup", daemon=True))
    return outcome
