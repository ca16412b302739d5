"""Deadlines that hold while names are resolved.

The system's resolver cannot be interrupted, and takes minutes where several servers and search
domains do not answer, as while a cluster starts. asyncio calls it on threads that it joins in the
end, other libraries on their own thread: neither a deadline nor a signal would end that. Here it
runs on daemon threads that are never joined.
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
    """Return what ``work`` returns, as ``asyncio.run`` does, without waiting for look-ups."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what ``work`` returns, on a thread. Raises ``NotReachableError`` after ``seconds``.

    The thread then continues, and its result is dropped.
    """
    begun = _begun(work)
    try:
        return begun.result(seconds)
    except TimeoutError:
        if begun.done():  # at the last moment, or the error is its own
            return begun.result()
        raise NotReachableError(
            "the coordinator did not prove its identity in time",
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
    """Return the outcome of ``work``, which runs on a daemon thread of its own."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # a cancellation would not stop it

    def do() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 the waiting thread raises it
            outcome.set_exception(error)

    start_without_signals(threading.Thread(target=do, name="lookup", daemon=True))
    return outcome
