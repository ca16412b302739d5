"""An event loop whose time passes at once whenever everything waits for it, and whose threads wait
for none: the same steps in the same order each time.
"""

import asyncio
import concurrent.futures
import selectors
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

__all__ = ["SimulatedLoop", "in_simulated_time", "until_idle"]


class _Instant(selectors.SelectSelector):
    """Waits for nothing; what would be waited is added to ``passed``."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everything waits, and nothing will ever happen")
        self.passed += max(timeout, 0)
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Work for threads is done at once, on the loop."""

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
        except BaseException as error:  # noqa: BLE001 - all of it belongs to the caller
            done.set_exception(error)
        return asyncio.wrap_future(done, loop=self)


def in_simulated_time(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Run ``test`` where time passes only while everything waits."""

    def run(tmp_path: Path) -> None:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            runner.run(test(tmp_path))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def until_idle() -> None:
    """Return when everything else waits for a moment to come, or for what a test does."""
    await asyncio.sleep(1e-6)
