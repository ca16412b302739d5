"""The time line of the page, an SVG: a lane for each subject, a dot for each row."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from keyhouse.evidence.report import Lane, ReportRow, in_words
from keyhouse.evidence.verify import Verified
from keyhouse.views.audit.markup import Html, element

# Units of the SVG: its width, the left margin for names, and the height of a lane.
_WIDE: Final = 960
_LEFT: Final = 110  # pixels
_LANE: Final = 44  # pixels
_MOST_DOTS: Final = 2_000  # of rows, and again of witness times; the page lists the rest


def time_line(verified: Verified, rows: Sequence[ReportRow]) -> Html:
    """Return the time line with a dot for each of ``rows``, at the claimed time of its leaves.

    A line leads from the dot to the time of the witnesses, in the lane of the witnesses.
    """
    seen = [each.time for each in verified.milestones if each.time is not None]
    times = [time for row in rows for time in (row.claimed, row.witnessed) if time] + seen
    if not times:
        return element("p", "No entry has a time.")
    first, last = min(times), max(times)
    height = _LANE * len(Lane) + 40
    lanes = {lane: 24 + _LANE * number for number, lane in enumerate(Lane)}
    return element(
        "svg",
        *(part for lane, y in lanes.items() for part in _lane(lane, y)),
        *(part for row in rows[:_MOST_DOTS] for part in _dots(row, lanes, first, last)),
        *(
            _dot(_place(time, first, last), lanes[Lane.WITNESSES], Lane.WITNESSES, in_words(time))
            for time in seen[:_MOST_DOTS]
        ),
        _end(_LEFT, height, "start", first),
        _end(_WIDE - 20, height, "end", last),
        viewBox=f"0 0 {_WIDE} {height}",
        role="img",
        aria_label=f"Entries from {in_words(first)} to {in_words(last)} UTC",
    )


def _lane(lane: Lane, y: int) -> tuple[Html, Html]:
    text = element("text", lane, x="4", y=str(y + 5), font_size="14")
    return text, element("line", x1=str(_LEFT), y1=str(y), x2=str(_WIDE - 20), y2=str(y))


def _end(x: int, height: int, anchor: str, time: datetime) -> Html:
    position = {"x": str(x), "y": str(height - 8), "font_size": "12", "text_anchor": anchor}
    return element("text", f"{in_words(time)} UTC", **position)


def _dots(
    row: ReportRow, lanes: dict[Lane, int], first: datetime, last: datetime
) -> Iterator[Html]:
    if row.claimed is None:
        return
    x, y = _place(row.claimed, first, last), lanes[row.lane]
    if row.witnessed is not None:
        seen = _place(row.witnessed, first, last)
        ends = {"x1": str(x), "y1": str(y), "x2": str(seen), "y2": str(lanes[Lane.WITNESSES])}
        yield element("line", class_="seen", **ends)
    yield _dot(x, y, row.lane, f"{row.numbers}: {row.text}")


def _dot(x: float, y: float, lane: Lane, title: str) -> Html:
    shown = element("title", title)
    return element("circle", shown, cx=str(x), cy=str(y), r="5", class_=f"lane-{lane}")


def _place(time: datetime, first: datetime, last: datetime) -> float:
    """Return the x coordinate of ``time``, on a time line from the time ``first`` to ``last``."""
    whole = (last - first).total_seconds() or 1.0
    share = (time - first).total_seconds() / whole
    return round(_LEFT + 8 + share * (_WIDE - _LEFT - 40), 1)
