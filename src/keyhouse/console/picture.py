"""Lay out the graph of a manifest in five columns, from code on the left to people on the right."""

from typing import Final

import msgspec

from keyhouse.console.secret_access import COLUMNS, Graph, Node
from keyhouse.views.visible import listed, visible

# At this width, the type has its full size beside the menu in a window of 1280 pixels.
_WIDE, _TALL, _GAP, _ACROSS, _TOP = 156, 34, 12, 40, 44
_LONGEST: Final = 17  # characters of a name


class Box(msgspec.Struct, frozen=True):
    """A box for an element of the manifest. ``text`` is its name, shortened if long.

    ``x`` and ``y``: the upper left corner in SVG units.
    """

    node: Node
    x: int
    y: int
    text: str


class Curve(msgspec.Struct, frozen=True):
    """A drawn arrow between two boxes: an SVG ``path``, and a ``title`` that explains the arrow.

    ``rule`` is the verb of the relation, such as "reads".
    """

    path: str
    rule: str
    title: str


class Drawing(msgspec.Struct, frozen=True):
    """A drawing, in SVG units. ``heads``: each column's title, with the x of the column."""

    width: int
    height: int
    heads: tuple[tuple[str, int], ...]
    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]
    box_width: int = _WIDE
    box_height: int = _TALL


def drawing_of(graph: Graph) -> Drawing:
    """Return a drawing of ``graph``, in which nodes with equal neighbours are adjacent."""
    places: dict[Node, int] = {}
    columns: list[list[Node]] = []
    for section in COLUMNS:
        column = [node for node in graph.nodes if node.section == section]
        column.sort(key=lambda node: (_mean(node, graph, places), node.name))
        places |= {node: row for row, node in enumerate(column)}
        columns.append(column)
    most = max(map(len, columns), default=0)
    boxes: dict[Node, Box] = {}
    for number, column in enumerate(columns):
        down = _TOP + (most - len(column)) * (_TALL + _GAP) // 2
        for row, node in enumerate(column):
            boxes[node] = Box(
                node, number * (_WIDE + _ACROSS), down + row * (_TALL + _GAP), _cut(node.name)
            )
    curves = tuple(_curve(boxes[each.left], boxes[each.right], each.rule) for each in graph.arrows)
    heads = tuple((section, number * (_WIDE + _ACROSS)) for number, section in enumerate(COLUMNS))
    width = len(COLUMNS) * (_WIDE + _ACROSS) - _ACROSS
    height = _TOP + max(most, 1) * (_TALL + _GAP)
    return Drawing(width, height, heads, tuple(boxes.values()), curves)


def _mean(node: Node, graph: Graph, places: dict[Node, int]) -> float:
    here = (each.left for each in graph.arrows if each.right == node)
    rows = [places[each] for each in here if each in places]
    return sum(rows) / len(rows) if rows else 0.0


def _curve(left: Box, right: Box, rule: str) -> Curve:
    x1, y1 = left.x + _WIDE, left.y + _TALL // 2
    x2, y2 = right.x, right.y + _TALL // 2
    bend = (x2 - x1) // 2
    path = f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
    # An arrow of a right points from the user on the right to the secret on the left.
    first, last = listed([left.node.name]), listed([right.node.name])
    if rule in {"reads", "writes"}:
        return Curve(path, rule, f"{last} {rule} {first}")
    if rule == "has":
        return Curve(path, rule, f"{last} has the role {first}")
    return Curve(path, rule, f"{first} {rule} {last}")


def _cut(name: str) -> str:
    name = visible(name)
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
