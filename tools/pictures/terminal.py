"""A recorded session in two terminals, side by side, as an endless animation.

With ``prefers-reduced-motion``, or without animation, the picture has all lines at once. The
terminal is dark in both themes. The colour of its frame depends on the theme.
"""

import re
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import msgspec

__all__ = ["RECORDED", "Line", "terminal"]

RECORDED: Final = Path(__file__).with_name("session.json")

_CHARACTER, _LINE, _LEFT, _BAR = 7.6, 19.0, 18.0, 34.0
_WIDTH: Final = 500.0  # of a terminal of 60 columns
_BETWEEN: Final = 12.0
_TYPED: Final = 28.0  # characters in a second
_PAUSE: Final = 4.0  # seconds at the end
_STYLES: Final = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "34": "u", "36": "c"}
_ESCAPE: Final = re.compile(r"\x1b\[([0-9;]*)m")


class Line(msgspec.Struct, frozen=True):
    """A line of a terminal, ``after`` seconds after the previous line.

    ``typed``: the user typed the line.
    """

    pane: int
    text: str
    after: float
    typed: bool = False


class _Timed(msgspec.Struct, frozen=True):
    line: Line
    begins: float
    ends: float


def terminal() -> str:
    """Return the picture of the recorded session."""
    lines = _timed(msgspec.json.decode(RECORDED.read_bytes(), type=list[Line]))
    whole = lines[-1].ends + _PAUSE
    panes = [[each for each in lines if each.line.pane == pane] for pane in (0, 1)]
    height = max(_BAR + _LINE * len(pane) + 18 for pane in panes)
    whole_width = 2 * _WIDTH + _BETWEEN
    titles = ("keyhouse dev --example --console", "your terminal")
    shown, rules = [], []
    for pane, title in zip((0, 1), titles, strict=True):
        shown.append(f'<g transform="translate({pane * (_WIDTH + _BETWEEN):.0f} 0)">')
        shown.append(_window(height, title))
        for number, each in enumerate(panes[pane]):
            name = f"l{pane}-{number}"
            shown.append(_drawn(each, _BAR + 16 + number * _LINE, name))
            rules.append(_played(each, name, whole))
        shown.append("</g>")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve"'
        f' viewBox="0 0 {whole_width:.0f} {height:.0f}"'
        f' width="{whole_width:.0f}" height="{height:.0f}" role="img" aria-labelledby="t d">'
    )
    spoken = " ".join(_ESCAPE.sub("", each.line.text).strip() for each in lines)
    return "\n".join(
        [
            head,
            '<title id="t">A session with keyhouse dev</title>',
            f'<desc id="d">{escape(spoken)}</desc>',
            f"<style>{_STYLE}@media(prefers-reduced-motion:no-preference){{{''.join(rules)}}}</style>",
            *shown,
            "</svg>",
            "",
        ]
    )


def _timed(lines: list[Line]) -> list[_Timed]:
    now, timed = 0.5, []
    for line in lines:
        now += line.after
        ends = now + (len(line.text) / _TYPED if line.typed else 0)
        timed.append(_Timed(line, now, ends))
        now = ends
    return timed


def _window(height: float, title: str) -> str:
    lights = "".join(
        f'<circle class="light" cx="{20 + 18 * n}" cy="18.0" r="5"/>' for n in range(3)
    )
    return (
        f'<rect class="window" x=".5" y="0.5" width="{_WIDTH - 1:.0f}"'
        f' height="{height - 1:.1f}" rx="10"/>{lights}'
        f'<text class="title" x="{_WIDTH / 2:.0f}" y="22.0" text-anchor="middle">'
        f"{escape(title)}</text>"
    )


def _drawn(timed: _Timed, y: float, name: str) -> str:
    line = timed.line
    prompt = "> " if line.text.startswith(" ") else "$ "
    text = prompt + line.text.strip() if line.typed else line.text
    runs, column, style = [], 0, "b" if line.typed else ""
    for number, part in enumerate(_ESCAPE.split(text)):
        if number % 2:
            style = " ".join(_STYLES[code] for code in part.split(";") if code in _STYLES)
        elif part:
            wide = len(part) * _CHARACTER
            if part.strip():
                runs.append(
                    f'<text class="{f"m {style}".strip()}" x="{_LEFT + column * _CHARACTER:.1f}"'
                    f' y="{y:.1f}" textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs">'
                    f"{escape(part)}</text>"
                )
            column += len(part)
    cover = ""
    if line.typed:
        wide = len(text) * _CHARACTER + 4
        cover = (
            f'<rect class="cover" id="{name}c" x="{_LEFT + 2 * _CHARACTER - 2:.1f}"'
            f' y="{y - 14:.1f}" width="{wide:.1f}" height="19"/>'
        )
    return f'<g id="{name}">{"".join(runs)}{cover}</g>'


def _played(timed: _Timed, name: str, whole: float) -> str:
    begins = timed.begins / whole * 100
    rule = (
        f"#{name}{{animation:{name} {whole:.1f}s infinite step-end}}"
        f"@keyframes {name}{{0%{{opacity:0}}{begins:.2f}%{{opacity:1}}}}"
    )
    if timed.line.typed:
        ends = timed.ends / whole * 100
        steps = len(timed.line.text)
        rule += (
            f"#{name}c{{animation:{name}c {whole:.1f}s infinite;"
            f"animation-timing-function:steps({steps})}}"
            f"@keyframes {name}c{{0%,{begins:.2f}%{{transform:scaleX(1)}}"
            f"{ends:.2f}%,100%{{transform:scaleX(0)}}}}"
        )
    return rule


_STYLE: Final = """
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace}
.window{fill:#14181f;stroke:#c9d2dc}.light{fill:#3a4452}.title{font-size:12px;fill:#8fa1b8}
.m{font-size:12.6px;fill:#d7dee8;white-space:pre}.b{font-weight:600;fill:#fff}.d{fill:#8fa1b8}
.r{fill:#f38b8b}.g{fill:#7fd8a6}.y{fill:#eec374}.u{fill:#8dbdf0}.c{fill:#85d3dd}
.cover{fill:#14181f;transform:scaleX(0);transform-box:fill-box;transform-origin:right}
@media(prefers-color-scheme:dark){.window{stroke:#2b333f}}
"""
