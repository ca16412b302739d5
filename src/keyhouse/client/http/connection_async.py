"""Carry out operations on an event loop of asyncio, over a TLS context or a transport."""

import asyncio
import time
from collections.abc import Callable
from random import SystemRandom
from typing import Any, Self, TypeVar

import httpx

from keyhouse.client.effects import Effect, HttpAnswer, HttpRequest, Pause, Steps
from keyhouse.client.errors import UnreachableError
from keyhouse.client.http import rules
from keyhouse.client.http.pinned_tls import PeerContext
from keyhouse.client.http.retries import Timeouts
from keyhouse.wire.address import Address

T = TypeVar("T")


class AsyncConnection:
    """Reused TLS connections to ``address``, for concurrent tasks of an event loop.

    ``transport`` carries the requests of a user with a key on a token. Without it, httpx opens the
    connections with ``context``.
    """

    def __init__(
        self,
        address: Address,
        context: PeerContext,
        timeouts: Timeouts,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._address = address
        self._timeouts = timeouts
        self._client = httpx.AsyncClient(
            **rules.client_options(address, context), transport=transport
        )
        self._random = SystemRandom()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections to the coordinator."""
        await self._client.aclose()

    async def run(self, steps: Steps[T]) -> T:
        """Carry out the ``steps`` of an operation; return its result, or raise its error.

        A cancelled operation still completes a running ``Work`` step, such as the storage of
        recovery shares.
        """
        try:
            effect = next(steps)
            while True:
                try:
                    result = await self._perform(effect)
                except BaseException as error:  # noqa: BLE001 the operation decides what it means
                    effect = steps.throw(error)
                else:
                    effect = steps.send(result)
        except StopIteration as done:
            value: T = done.value
            return value
        except UnreachableError as error:
            # The message is complete. The frames of the operation would hide the caller's line.
            raise error.with_traceback(None) from None

    async def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, HttpRequest):
            return await self._send(effect)
        if isinstance(effect, Pause):
            await asyncio.sleep(effect.seconds * self._random.uniform(0.5, 1))
            return None
        return await _in_thread(effect.run)

    async def _send(self, request: HttpRequest) -> HttpAnswer:
        """Send ``request`` and return its answer. Raises the errors of ``BlockingConnection``."""
        rules.require_open(self._client)
        progress = rules.RequestProgress()
        options = rules.prepared(request, self._timeouts, progress.see_async)
        try:
            async with (
                asyncio.timeout(max(request.deadline - time.monotonic(), 0.001)),
                self._client.stream(**options) as response,
            ):
                body = rules.Body(self._address, request, response)
                async for part in response.aiter_raw():
                    body.add(part)
                return body.answer()
        except TimeoutError as error:
            kind = httpx.ConnectTimeout if progress.is_connecting else httpx.ReadTimeout
            late = kind("the whole answer took too long")
            late.__cause__ = error
            raise rules.client_error(self._address, request, late, progress) from None
        except rules.FROM_HTTPX as error:
            raise rules.client_error(self._address, request, error, progress) from None


async def _in_thread(run: Callable[[], T]) -> T:
    """Call ``run`` in a thread and return its result.

    After a cancellation, wait until ``run`` ends, because it may be saving data.
    """
    future = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
