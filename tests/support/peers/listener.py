"""A workload listener in a thread, over a real engine, with limits and answers of the test."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import uvloop

from keyhouse.coordinator import ActivationParameters, ActivationRequest
from keyhouse.server.net.limits import WorkloadLimits
from keyhouse.server.workload_api.listener import WorkloadListener
from support.samples.deployment import FixedClock, running_engine

T = TypeVar("T")


class Joining:
    """Answers activations by type: ``wait`` waits for ``gate``, ``fail`` fails, ``big`` is big."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.identities: list[bytes | None] = []
        self.cancelled = threading.Event()

    async def activate(
        self, request: ActivationRequest, identity: bytes | None, shown: bytes
    ) -> ActivationParameters:
        """Answer as the marble type demands."""
        del shown
        self.identities.append(identity)
        if request.marble_type.startswith("wait"):
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if request.marble_type == "fail":
            raise ValueError("a secret")
        big = {"big": bytes(1_000_000)} if request.marble_type.endswith("big") else {}
        return ActivationParameters(files=big, env={}, argv=("program",))


class RunningWorkloads(NamedTuple):
    """A listener in its own thread."""

    listener: WorkloadListener
    joining: Joining
    port: int
    loop: asyncio.AbstractEventLoop

    def do(self, function: Callable[[], T]) -> T:
        """Call ``function`` on the listener's loop; return the result."""

        async def call() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(20)

    def do_until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition`` holds on the listener's loop, at most 20 s."""

        async def wait() -> None:
            async with asyncio.timeout(20):
                while not condition():  # noqa: ASYNC110 - no event announces the condition
                    await asyncio.sleep(0.005)

        asyncio.run_coroutine_threadsafe(wait(), self.loop).result(25)

    def pass_time(self, seconds: float) -> None:
        """Expire connections as the listener would after ``seconds``.

        So a limit can be long enough for an honest client on a slow machine, and the test does not
        wait for the limit.
        """

        def look() -> None:
            for connection in self.listener.connections.all():
                connection.expire(self.loop.time() + seconds)

        self.do(look)


@contextmanager
def workloads(folder: Path, limits: WorkloadLimits | None = None) -> Iterator[RunningWorkloads]:
    """Run a listener on loopback until the block ends."""
    started: Future[RunningWorkloads] = Future()
    end = threading.Event()

    clock = FixedClock(time.time_ns() // 1000)  # clients verify the dates of the certificate

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        async with running_engine(folder / "data", clock) as engine:
            joining = Joining()
            listener = WorkloadListener(engine, joining.activate, simulated=True, limits=limits)
            await listener.start("127.0.0.1", 0)
            started.set_result(RunningWorkloads(listener, joining, listener.port, loop))
            await loop.run_in_executor(None, end.wait)
            await listener.stop(0.0)

    thread = threading.Thread(target=lambda: uvloop.run(serve()))
    thread.start()
    try:
        yield started.result(20)
    finally:
        end.set()
        thread.join(20)
