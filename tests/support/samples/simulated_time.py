"""An event loop in which time passes at once while all tasks wait.

Work for threads runs on the loop, so the steps and their order are the same in each run.
"""

import asyncio
import concurrent.futures
import selectors
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

__all__ = ["SimulatedLoop", "in_simulated_time", "until_idle"]


class _Instant(selectors.SelectSelector):
    """Does not wait; adds the requested waits to ``passed``."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everything waits, and nothing will ever happen")
        self.passed += max(timeout, 0)
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Runs work for threads at once, on the loop."""

    def __init__(self) -> None:
        self._instant = _Instant()
        super().__init__(self._instant)

    def time(self) -> float:
        return self._instant.passed

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        del executor
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            done.set_result(func(*args))
        except BaseException as error:  # noqa: BLE001 - the caller handles all errors
            done.set_exception(error)
        return asyncio.wrap_future(done, loop=self)


def in_simulated_time(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Return ``test`` as a function that runs in simulated time."""

    def run(tmp_path: Path) -> None:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            runner.run(test(tmp_path))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def until_idle() -> None:
    """Return when all other tasks wait for a time, or for an action of the test."""
    await asyncio.sleep(1e-6)
