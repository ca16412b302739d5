"""A report on an evidence file as one HTML page: no scripts, nothing from elsewhere."""

from collections.abc import Iterator
from datetime import datetime
from html import escape
from typing import Final

from keyhouse.base.printable import printable
from keyhouse.evidence.report import Lane, Row, gaps_of, in_words, rows_of, summary_of
from keyhouse.evidence.verify import Verified

_WIDE: Final = 960
_LEFT: Final = 110
_LANE: Final = 44
_MOST_DOTS: Final = 2_000

_STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;
color:#1b2430;background:#fff}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;
padding:.25rem .6rem;border-bottom:1px solid #d8dee6}
td{overflow-wrap:anywhere}td:first-child,.time{white-space:nowrap}
.marked td{background:#fff6dd}.verdict{padding:.6rem 1rem;border-left:.4rem solid #2d6a4f;
background:#eef7f1}.unverified{border-color:#b3261e;background:#fdeceb}
svg{width:100%;height:auto}
"""
_MARKED: Final = ' class="marked"'
_COLOURS: Final = {
    Lane.CODE: "#1f5fa8",
    Lane.MANIFESTS: "#6b3fa0",
    Lane.PEOPLE: "#8a5a00",
    Lane.WITNESSES: "#2d6a4f",
}


def page_of(verified: Verified) -> bytes:
    """Return the page, UTF-8. Everything that comes from the file is escaped."""
    rows = rows_of(verified)
    title = f"Evidence of {_shown(verified.evidence.origin)}"
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>",
        _verdict(verified),
        _table((name, value) for name, value in summary_of(verified).items()),
        "<h2>Time line</h2>",
        _time_line(verified, rows),
        "<h2>Entries</h2>",
        _entries(rows),
        "<h2>Not proven</h2><ul>",
        *(f"<li>{_shown(each)}</li>" for each in gaps_of(verified)),
        "</ul></body></html>\n",
    ]
    return "\n".join(parts).encode()


def _verdict(verified: Verified) -> str:
    if verified.pins is None:
        return (
            '<p class="verdict unverified">NOT VERIFIED. This page shows what the file says;'
            " anybody can make such a file. keyhouse evidence verify verifies it.</p>"
        )
    simulated = "SIMULATION, which proves nothing about hardware. " * verified.is_simulated
    by = "no witnesses: a fork is NOT excluded" if verified.witnessed is None else "witnesses"
    return (
        f'<p class="verdict">{simulated}Proven, with {by}, on {in_words(verified.pins.now)} UTC,'
        " except for what is listed below. Who made this page can write anything:"
        " verify the file yourself.</p>"
    )


def _table(rows: Iterator[tuple[str, str]]) -> str:
    cells = "\n".join(
        f"<tr><th>{_shown(name)}</th><td>{_shown(value)}</td></tr>" for name, value in rows
    )
    return f"<table>{cells}</table>"


def _entries(rows: list[Row]) -> str:
    head = "<tr><th>entry</th><th>claimed (UTC)</th><th>witnessed</th><th>what</th></tr>"
    body = "\n".join(
        f"<tr{_MARKED if row.is_marked else ''}><td>{row.numbers}</td>"
        f'<td class="time">{in_words(row.claimed)}</td>'
        f'<td class="time">{in_words(row.witnessed)}</td>'
        f"<td>{_shown(row.text)}</td></tr>"
        for row in rows
    )
    return f"<table>{head}\n{body}</table>"


def _time_line(verified: Verified, rows: list[Row]) -> str:
    """Return an SVG with a lane for each subject; a line leads to the time of the witnesses."""
    seen = [each.time for each in verified.milestones if each.time is not None]
    times = [time for row in rows for time in (row.claimed, row.witnessed) if time] + seen
    if not times:
        return "<p>No entry has a time.</p>"
    first, last = min(times), max(times)
    height = _LANE * len(Lane) + 40
    label = f"Entries from {in_words(first)} to {in_words(last)} UTC"
    parts = [f'<svg viewBox="0 0 {_WIDE} {height}" role="img" aria-label="{label}">']
    lanes = {lane: 24 + _LANE * number for number, lane in enumerate(Lane)}
    for lane, y in lanes.items():
        parts.append(f'<text x="4" y="{y + 5}" font-size="14">{lane}</text>')
        parts.append(f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDE - 20}" y2="{y}" stroke="#d8dee6"/>')
    for row in rows[:_MOST_DOTS]:
        parts += _dots(row, lanes, first, last)
    y = lanes[Lane.WITNESSES]
    for time in seen[:_MOST_DOTS]:
        parts.append(_dot(_place(time, first, last), y, Lane.WITNESSES, in_words(time)))
    ends = (("start", _LEFT, first), ("end", _WIDE - 20, last))
    parts += [
        f'<text x="{x}" y="{height - 8}" font-size="12" text-anchor="{anchor}">'
        f"{in_words(time)} UTC</text>"
        for anchor, x, time in ends
    ]
    return "\n".join([*parts, "</svg>"])


def _dots(row: Row, lanes: dict[Lane, int], first: datetime, last: datetime) -> Iterator[str]:
    if row.claimed is None:
        return
    x, y = _place(row.claimed, first, last), lanes[row.lane]
    if row.witnessed is not None:
        seen = _place(row.witnessed, first, last)
        yield (
            f'<line x1="{x}" y1="{y}" x2="{seen}" y2="{lanes[Lane.WITNESSES]}"'
            ' stroke="#c3ccd6" stroke-width=".6"/>'
        )
    yield _dot(x, y, row.lane, f"{row.numbers}: {row.text}")


def _dot(x: float, y: float, lane: Lane, title: str) -> str:
    return (
        f'<circle cx="{x}" cy="{y}" r="5" fill="{_COLOURS[lane]}"><title>{_shown(title)}</title>'
        "</circle>"
    )


def _place(time: datetime, first: datetime, last: datetime) -> float:
    """Return where on the line ``time`` is."""
    whole = (last - first).total_seconds() or 1.0
    share = (time - first).total_seconds() / whole
    return round(_LEFT + 8 + share * (_WIDE - _LEFT - 40), 1)


def _shown(text: str) -> str:
    return escape(printable(text))
