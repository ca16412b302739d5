"""Long lists, a page at a time: a browser is never sent ten thousand rows."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request

_ROWS: Final = 100


class Page(msgspec.Struct, frozen=True):
    """Some of ``total`` rows. ``older`` and ``newer`` are links, "" where there is no more."""

    rows: tuple[Any, ...]
    total: int
    first: int  # from 1
    previous: str
    next: str

    @property
    def last(self) -> int:
        """The number of the last row, from 1; 0 if there is none."""
        return self.first + len(self.rows) - 1


def paged(request: Request, rows: Sequence[Any]) -> Page:
    """Return the rows of the page that the query names (``page``, from 1)."""
    text = request.query_params.get("page", "1")
    most = max(1, -(-len(rows) // _ROWS))
    number = min(int(text), most) if text.isascii() and text.isdigit() and text != "0" else 1
    start = (number - 1) * _ROWS
    return Page(
        tuple(rows[start : start + _ROWS]),
        len(rows),
        start + 1,
        _link(request, number - 1) if number > 1 else "",
        _link(request, number + 1) if number < most else "",
    )


def _link(request: Request, number: int) -> str:
    kept = [(name, value) for name, value in request.query_params.items() if name != "page"]
    return "?" + urlencode([*kept, ("page", str(number))])
