"""What an operation does, one step after the other, without doing it.

An operation is a generator. It yields effects and is sent what they gave, or has thrown in what
they raised; what it returns is the result. It knows neither sockets nor threads nor event loops, so
it is written once: ``connection`` carries the effects out with blocking calls, and
``connection_async`` on an event loop.

    Request   one HTTP request, tried once          gives an Answer; raises what a connection does
    Work      something that may block (files, CPU)  gives and raises what it does
    Pause     wait before trying again               gives nothing
"""

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeVar

import msgspec

from keyhouse.base.secret import Secret

__all__ = ["Answer", "Effect", "Pause", "Request", "Steps", "Work", "ask", "pause", "work"]

T = TypeVar("T")

_LATER: Final = frozenset({429, 503})
_METHOD_NOT_ALLOWED: Final = 405


class Request(msgspec.Struct, frozen=True):
    """One request. ``body`` may hold what nobody may see, so it is shown to nobody."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Secret | None = None  # JSON
    maximum: int = 1 << 20  # bytes that the answer's body may have
    deadline: float = 1e9  # of ``time.monotonic()``: none


class Answer(msgspec.Struct, frozen=True):
    """What came back."""

    http_status: int
    body: bytes
    state: str | None = None  # the header Keyhouse-State
    retry_after: str = ""  # the header Retry-After

    @property
    def is_put_off(self) -> bool:
        """Whether the coordinator cannot do it now."""
        return self.http_status in _LATER

    @property
    def is_of_older(self) -> bool:
        """Whether the coordinator does not know the call."""
        return self.http_status == _METHOD_NOT_ALLOWED

    def __repr__(self) -> str:
        return f"<Answer {self.http_status} of {len(self.body)} bytes>"


class Work(Generic[T]):
    """A function that may block."""

    def __init__(self, run: Callable[[], T]) -> None:
        self.run = run


class Pause(msgspec.Struct, frozen=True):
    """A wait of at most ``seconds``; at least half of them, so that clients come apart."""

    seconds: float


Effect = Request | Work[Any] | Pause
Steps = Generator[Effect, Any, T]


def ask(request: Request) -> Steps[Answer]:
    """Send ``request`` once and return its answer."""
    answer: Answer = yield request
    return answer


def work(run: Callable[[], T]) -> Steps[T]:
    """Return what ``run`` gives."""
    result: T = yield Work(run)
    return result


def pause(seconds: float) -> Steps[None]:
    """Wait."""
    yield Pause(seconds)
