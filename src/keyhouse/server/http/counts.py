"""Counts requests when they are answered, under a limited number of labels, in a few operations.

A path without a route, and a method that is not in HTTP, have a common label each. So anonymous
clients cannot create more series than the table of routes has.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from keyhouse.base.histogram import Tally
from keyhouse.server.http.exchange import INTERNAL_ERROR

UNKNOWN: Final = "unknown"
"""The label of all unknown paths and methods. The label is not a path: paths begin with a slash."""

# The metrics of the interface have lower-case labels.
METHODS: Final = frozenset(
    {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
)

SECONDS: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 5)
# Bytes.
SIZES: Final = (100, 1000, 2000, 5000, 10000)


class _Cell:
    """The counts of the answers with equal path, method and status. A flat object, for speed."""

    __slots__ = ("answered", "bytes_in", "bytes_out", "seconds", "sizes_in", "sizes_out", "times")

    def __init__(self) -> None:
        self.answered = 0
        # By upper bound. The last count is above every bound.
        self.times = [0] * (len(SECONDS) + 1)
        self.seconds = 0.0
        self.sizes_in = [0] * (len(SIZES) + 1)
        self.bytes_in = 0
        self.sizes_out = [0] * (len(SIZES) + 1)
        self.bytes_out = 0


class RequestCounts:
    """The answers of a listener since the process began. Use on the event loop's thread only.

    ``paths``: the paths of the routes, which become labels.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        from http import HTTPStatus  # only with metrics: a start without them needs no table

        self.paths: Final = frozenset(paths)
        self._statuses: Final = frozenset(map(int, HTTPStatus))
        self._cells: dict[tuple[str, str, int], _Cell] = {}

    def label(self, path: str) -> str:
        """Return the label of ``path`` in metrics: the path of a route, or ``UNKNOWN``."""
        return path if path in self.paths else UNKNOWN

    def answered(
        self, path: str, method: str, status: int, seconds: float, request: int, response: int
    ) -> None:
        """Count an answer to a request with a readable head. Written for speed.

        ``seconds``: from the complete head to the answer. ``request``: bytes of its head and body.
        ``response``: bytes of the answer's body.
        """
        cell = self._cells.get((path, method, status)) or self._cell(path, method, status)
        cell.answered += 1
        cell.times[bisect_left(SECONDS, seconds)] += 1
        cell.seconds += seconds
        cell.sizes_in[bisect_left(SIZES, request)] += 1
        cell.bytes_in += request
        cell.sizes_out[bisect_left(SIZES, response)] += 1
        cell.bytes_out += response

    def refused(self, status: int) -> None:
        """Count a refusal with the HTTP ``status`` of a request without a readable head.

        Such a request has no known path and no duration.
        """
        self._cell("", "", status).answered += 1

    def answers(self) -> dict[tuple[str, str, str], int]:
        """Return the number of answers by path, code and method."""
        return {
            (path, str(code), method): cell.answered
            for (path, method, code), cell in self._labelled()
        }

    def durations(self) -> dict[tuple[str, str], Tally]:
        """Return the seconds from a complete head to the answer, by path and method."""
        found: dict[tuple[str, str], Tally] = {}
        for (path, method, _), cell in self._labelled(measured=True):
            tally = found.setdefault((path, method), Tally(SECONDS))
            tally.include(cell.times, cell.seconds)
        return found

    def request_sizes(self) -> dict[tuple[str], Tally]:
        """Return the received bytes of heads and bodies, by path."""
        found: dict[tuple[str], Tally] = {}
        for (path, _, _), cell in self._labelled(measured=True):
            found.setdefault((path,), Tally(SIZES)).include(cell.sizes_in, cell.bytes_in)
        return found

    def response_sizes(self) -> dict[tuple[str], Tally]:
        """Return the bytes of the answers' bodies, by path."""
        found: dict[tuple[str], Tally] = {}
        for (path, _, _), cell in self._labelled(measured=True):
            found.setdefault((path,), Tally(SIZES)).include(cell.sizes_out, cell.bytes_out)
        return found

    def _labelled(self, *, measured: bool = False) -> Iterator[tuple[tuple[str, str, int], _Cell]]:
        """Yield the cells, with methods in lower case. ``measured``: only cells with a duration."""
        for (path, method, code), cell in self._cells.items():
            if not measured or any(cell.times):
                yield (path, method.lower(), code), cell

    def _cell(self, path: str, method: str, status: int) -> _Cell:
        """Return the cell of the labels for a request, so that the number of cells is limited.

        Unknown paths and methods have a common label. An unknown ``status`` counts as 500.
        """
        key = (
            self.label(path),
            method if method in METHODS else UNKNOWN,
            status if status in self._statuses else INTERNAL_ERROR,
        )
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = _Cell()
        return cell
