"""Elements of pictures: boxes, arrows, icons and texts, as SVG in a light and a dark theme.

Units are pixels of the picture's width. The reader's browser selects the theme. A text wider than
its box is an error. Fonts differ, so a text must fit with a margin.
"""

from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from pictures.icons import ICONS
from pictures.theme import STYLE

__all__ = ["Canvas", "TooWideError", "width_of"]

Point = tuple[float, float]

_SVG: Final = "http://www.w3.org/2000/svg"
_ROUND: Final = 10.0  # radius of the corners of arrows
_PADDING: Final = 8.0  # on each side of a text in its box
_WIDTHS: Final = (  # widths of letters as parts of the font size: as in Arial, a little larger
    ("iljI|!.,:;'", 0.29),
    ("ftr()[]{}/- ·", 0.36),
    ("mwMW@%‖→", 0.90),
    ("ABCDEFGHKLNOPQRSTUVXYZ&+=<>", 0.70),
)
_OTHER: Final = 0.57
_BOLD: Final = 1.07
_MONO: Final = 0.61
_SIZES: Final = {"name": 15, "what": 13, "small": 12, "note": 14, "mono": 12.5, "tag": 12}


class TooWideError(Exception):
    """A text is wider than its box. The message has the text and the missing pixels."""


def width_of(text: str, style: str) -> float:
    """Return the estimated width of ``text`` in a style of ``theme.STYLE``."""
    size = _SIZES[style]
    if style == "mono":
        return size * _MONO * len(text)
    sizes = [next((w for those, w in _WIDTHS if letter in those), _OTHER) for letter in text]
    return sum(sizes) * size * (_BOLD if style in {"name", "tag"} else 1)


class Canvas:
    """A picture under construction. ``about`` describes the picture for screen readers."""

    def __init__(self, width: float, height: float, title: str, about: str) -> None:
        self.width: Final = width
        self.height: Final = height
        self._title = title
        self._about = about
        self._parts: list[str] = []

    def svg(self) -> str:
        """Return the whole picture."""
        w, h = _n(self.width), _n(self.height)
        size = f'viewBox="0 0 {w} {h}" width="{w}" height="{h}"'
        edge = f'x=".5" y=".5" width="{_n(self.width - 1)}" height="{_n(self.height - 1)}"'
        return "\n".join(
            [
                f'<svg xmlns="{_SVG}" {size} role="img" aria-labelledby="t d">',
                f'<title id="t">{escape(self._title)}</title>',
                f'<desc id="d">{escape(self._about)}</desc>',
                f"<style>{STYLE}</style>",
                _MARKERS,
                f'<rect class="page" {edge} rx="14"/>',
                *self._parts,
                "</svg>",
                "",
            ]
        )

    def box(
        self,
        place: tuple[float, float, float, float],
        name: str,
        *what: str,
        kind: str = "plain",
        icon: str | None = None,
    ) -> None:
        """Draw a box at (x, y, width, height) with a centred icon, name and lines.

        Raises:
            TooWideError: a line does not fit.
        """
        x, y, w, h = place
        self._rect(place, f"box {kind}", 9)
        lines = [("name", name)] * bool(name) + [("what", line) for line in what]
        tall = 19 * len(lines) + (34 if icon else 0)
        at = y + (h - tall) / 2
        if icon:
            self.icon(icon, x + w / 2 - 13, at + 1, kind)
            at += 34
        for style, line in lines:
            self._fits(line, style, w)
            self.text(x + w / 2, at + 14, line, style, anchor="middle")
            at += 19

    def area(
        self, place: tuple[float, float, float, float], name: str, kind: str = "plain"
    ) -> None:
        """Draw a large area with a name at the upper left corner."""
        self._rect(place, f"area {kind}", 14)
        if name:
            self._fits(name, "tag", place[2])
            self.text(place[0] + 16, place[1] + 22, name, "tag", kind=kind)

    def tag(self, x: float, y: float, text: str, kind: str = "plain") -> None:
        """Draw a pill with ``text``, centred at (x, y)."""
        w = width_of(text, "tag") + 20
        self._rect((x - w / 2, y - 12, w, 24), f"pill {kind}", 12)
        self.text(x, y + 4, text, "tag", anchor="middle", kind=kind)

    def arrow(
        self,
        points: Sequence[Point],
        label: str = "",
        *,
        kind: str = "plain",
        at: Point | None = None,
        both: bool = False,
        head: bool = True,
    ) -> None:
        """Draw a line with rounded corners through ``points``, with a head at the end.

        ``label`` is above the middle of the first part, or at ``at``. ``both`` adds a head at the
        begin.
        """
        heads = f' marker-end="url(#{kind})"' if head else ""
        heads += f' marker-start="url(#{kind})"' if both else ""
        self._parts.append(f'<path class="line {kind}" d="{_rounded(points)}"{heads}/>')
        if label:
            (x0, y0), (x1, y1) = points[:2]
            place = at or ((x0 + x1) / 2, (y0 + y1) / 2 - 8)
            self.text(*place, label, "small", anchor="middle", kind=kind)

    def line(self, points: Sequence[Point], kind: str = "plain", style: str = "rule") -> None:
        """Draw a plain line; ``style`` is ``rule``, ``dash`` or ``lane``."""
        path = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self._parts.append(f'<path class="{style} {kind}" d="{path}"/>')

    def dot(self, x: float, y: float, kind: str = "plain", radius: float = 7) -> None:
        """Draw a filled dot."""
        self._parts.append(
            f'<circle class="dot {kind}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"/>'
        )

    def bar(self, place: tuple[float, float, float, float], kind: str) -> None:
        """Draw a bar of a plot."""
        self._rect(place, f"bar {kind}", 2)

    def icon(self, name: str, x: float, y: float, kind: str = "plain", scale: float = 1.1) -> None:
        """Draw an icon of 24 by 24 pixels, times ``scale``; (x, y) is the upper left corner."""
        self._parts.append(
            f'<g class="icon {kind}" transform="translate({_n(x)} {_n(y)}) scale({_n(scale)})">'
            f"{ICONS[name]}</g>"
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        style: str = "what",
        *,
        anchor: str = "start",
        kind: str = "",
    ) -> None:
        """Write a line of text on the base line ``y``. Raises ``TooWideError``."""
        self._inside(x, text, style, anchor)
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(
            f'<text class="{f"{style} {kind}".strip()}" x="{_n(x)}" y="{_n(y)}"{where}>'
            f"{escape(text)}</text>"
        )

    def _rect(self, place: tuple[float, float, float, float], style: str, radius: float) -> None:
        x, y, w, h = map(_n, place)
        self._parts.append(
            f'<rect class="{style}" x="{x}" y="{y}" width="{w}" height="{h}" rx="{_n(radius)}"/>'
        )

    def _fits(self, text: str, style: str, room: float) -> None:
        missing = width_of(text, style) + 2 * _PADDING - room
        if missing > 0:
            raise TooWideError(f"{self._title}: {text!r} needs {missing:.0f} more")

    def _inside(self, x: float, text: str, style: str, anchor: str) -> None:
        w = width_of(text, style)
        left = x - {"start": 0.0, "middle": w / 2, "end": w}[anchor]
        if left < 4 or left + w > self.width - 4:
            raise TooWideError(f"{self._title}: {text!r} leaves the picture")


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _rounded(points: Sequence[Point]) -> str:
    """Return a path through ``points`` with rounded corners."""
    path = f"M{_n(points[0][0])} {_n(points[0][1])}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        entry, leave = _towards(corner, before), _towards(corner, after)
        path += f"L{_n(entry[0])} {_n(entry[1])}Q{_n(corner[0])} {_n(corner[1])}"
        path += f" {_n(leave[0])} {_n(leave[1])}"
    return path + f"L{_n(points[-1][0])} {_n(points[-1][1])}"


def _towards(start: Point, end: Point) -> Point:
    length = ((end[0] - start[0]) ** 2 + (end[1] - start[1]) ** 2) ** 0.5
    part = min(_ROUND, length / 2) / length
    return start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part


_MARKERS: Final = (
    "<defs>"
    + "".join(
        f'<marker id="{kind}" viewBox="0 0 10 10" refX="8.5" refY="5" markerWidth="7"'
        f' markerHeight="7" orient="auto-start-reverse">'
        f'<path class="head {kind}" d="M1 1 9 5 1 9z"/></marker>'
        for kind in ("plain", "blue", "green", "red", "amber", "violet")
    )
    + "</defs>"
)
