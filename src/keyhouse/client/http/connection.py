"""Carry out operations with blocking calls, over a TLS context or a transport of httpx."""

import time
from collections.abc import Iterator
from random import SystemRandom
from typing import Any, Final, Self, TypeVar

import httpx

from keyhouse.base.progress import advance, begin, is_watched
from keyhouse.client.effects import Effect, HttpAnswer, HttpRequest, Pause, Steps
from keyhouse.client.errors import UnreachableError
from keyhouse.client.http import rules
from keyhouse.client.http.pinned_tls import PeerContext
from keyhouse.client.http.retries import Timeouts
from keyhouse.wire.address import Address

T = TypeVar("T")

_LARGE: Final = 1 << 20
"""The least bytes of a request's body for a report of the progress."""

_PIECE: Final = 1 << 16  # bytes between two reports of the progress: one read


class BlockingConnection:
    """Reused TLS connections to ``address``, for one thread at a time.

    ``transport`` carries the requests of a user with a key on a token. Without it, httpx opens the
    connections with ``context``. In both cases ``context`` has the deadline of the present request.
    """

    def __init__(
        self,
        address: Address,
        context: PeerContext,
        timeouts: Timeouts,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._address = address
        self._context = context
        self._timeouts = timeouts
        self._client = httpx.Client(**rules.client_options(address, context), transport=transport)
        self._random = SystemRandom()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections to the coordinator."""
        self._client.close()

    def run(self, steps: Steps[T]) -> T:
        """Carry out the ``steps`` of an operation; return its result, or raise its error."""
        try:
            effect = next(steps)
            while True:
                try:
                    result = self._perform(effect)
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

    def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, HttpRequest):
            return self._send(effect)
        if isinstance(effect, Pause):
            time.sleep(effect.seconds * self._random.uniform(0.5, 1))
            return None
        return effect.run()

    def _send(self, request: HttpRequest) -> HttpAnswer:
        """Send ``request`` and return its answer.

        Raises ``TrustError`` for an unexpected peer in the handshake. Raises ``UnreachableError``
        without a complete answer in time, and ``AnswerUnreadableError`` for an answer that is too
        long or compressed.
        """
        rules.require_open(self._client)
        self._context.deadline = request.deadline
        progress = rules.RequestProgress()
        options = rules.prepared(request, self._timeouts, progress.see)
        if (body := options["content"]) is not None and is_watched() and len(body) >= _LARGE:
            options["content"] = _with_progress(body)
            options["headers"]["Content-Length"] = str(len(body))
        try:
            with self._client.stream(**options) as response:
                answer = rules.Body(self._address, request, response)
                for part in response.iter_raw():
                    answer.add(part)
                return answer.answer()
        except rules.FROM_HTTPX as error:
            raise rules.client_error(self._address, request, error, progress) from None


def _with_progress(body: bytes) -> Iterator[bytes]:
    """Yield ``body``, the body of a request, in pieces; report the progress after each piece."""
    begin("sending", len(body))
    for start in range(0, len(body), _PIECE):
        yield body[start : start + _PIECE]
        advance(min(_PIECE, len(body) - start))
