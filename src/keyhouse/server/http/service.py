"""What all HTTP connections of a listener share: its application, its limits, heads of answers."""

from http import HTTPStatus
from typing import Final

from keyhouse.base.errors import Broken
from keyhouse.server.http.counts import RequestCounts
from keyhouse.server.http.exchange import Answer, Application
from keyhouse.server.net.connections import Connections
from keyhouse.server.net.limits import Limits

__all__ = ["HttpService"]

_MOST_KNOWN_ANSWERS: Final = 256


class HttpService(Connections):
    """The ``application`` and what its callers use. Used on the event loop's thread only.

    ``body_bytes`` is what bodies in flight hold, ``anonymous_bytes`` those of anonymous
    clients.
    """

    def __init__(
        self, application: Application, limits: Limits, counts: RequestCounts | None = None
    ) -> None:
        super().__init__(limits)
        self.application = application
        self.limits = limits
        self.counts = counts
        self.body_bytes = 0
        self.anonymous_bytes = 0  # of them
        self._known_answers: dict[tuple[int, tuple[tuple[bytes, bytes], ...], bool], bytes] = {}

    def reserve(self, count: int, *, known: bool) -> bool:
        """Take ``count`` bytes of the memory for bodies, or return False and take none.

        Anonymous clients together get half of it, so that they never keep a ``known`` caller out.
        """
        limit = self.limits.body_memory
        if self.body_bytes + count > limit:
            return False
        if not known:
            if self.anonymous_bytes + count > limit // 2:
                return False
            self.anonymous_bytes += count
        self.body_bytes += count
        return True

    def release(self, count: int, *, known: bool) -> None:
        """Give back what was reserved."""
        self.body_bytes -= count
        if not known:
            self.anonymous_bytes -= count

    def head(self, answer: Answer, *, close: bool) -> bytes:
        """Return the bytes of an answer up to its body."""
        key = (answer.status, answer.headers, close)
        prefix = self._known_answers.get(key)
        if prefix is None:
            prefix = _answer_head(answer, close=close)
            if len(self._known_answers) >= _MOST_KNOWN_ANSWERS:
                self._known_answers.clear()
            self._known_answers[key] = prefix
        return b"%b%d\r\n\r\n" % (prefix, len(answer.body))


def _answer_head(answer: Answer, *, close: bool) -> bytes:
    """Return the head of an answer up to the value of its content-length, which comes last."""
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}".encode("ascii")]
    names = {name.lower() for name, _ in answer.headers}
    if b"content-type" not in names:
        lines.append(b"content-type: application/json")
    lines += (b"x-content-type-options: nosniff", b"cache-control: no-store")
    for name, value in answer.headers:
        line = name + b": " + value
        if b"\r" in line or b"\n" in line:
            raise Broken("an answer has a header with a line break")
        lines.append(line)
    if close:
        lines.append(b"connection: close")
    lines.append(b"content-length: ")
    return b"\r\n".join(lines)
