"""Keeps a deadline although names are looked up.

The system's resolver cannot be interrupted, and takes minutes where several servers and search
domains do not answer, as they do while a cluster starts. asyncio asks it on threads that it joins
in the end, others ask it where they are: neither a deadline nor a signal would end that. Here it
works on threads that nobody joins.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from keyhouse.launcher.errors import NotReachable
from keyhouse.launcher.unsignalled import start_without_signals

__all__ = ["run", "within"]

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` gives, as ``asyncio.run`` does, without waiting for look-ups."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what ``work`` gives, which is done on a thread. Raises ``NotReachable`` if it is late.

    It goes on then, and what it gives is forgotten.
    """
    begun = _begun(work)
    try:
        return begun.result(seconds)
    except TimeoutError:
        if begun.done():  # at the last moment, or the error is its own
            return begun.result()
        raise NotReachable(
            "the coordinator gives no proof in time",
            hint="check the address, that the coordinator runs, and that names are resolved",
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
        """Return what the system's resolver finds. Raises ``OSError``."""
        ask = partial(socket.getaddrinfo, host, port, family, type, proto, flags)
        return await asyncio.wrap_future(_begun(ask), loop=self)


def _begun(work: Callable[[], T]) -> "Future[T]":
    """Return the outcome of ``work``, on a thread of its own that nobody has to wait for."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # so nobody can cancel what cannot be

    def do() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 it is for whoever waits
            outcome.set_exception(error)

    start_without_signals(threading.Thread(target=do, name="lookup", daemon=True))
    return outcome
