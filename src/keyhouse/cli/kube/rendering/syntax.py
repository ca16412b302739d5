"""Parse the text of a Go template into nodes.

The grammar is the part of https://pkg.go.dev/text/template that the chart uses: actions with trim
markers, comments, ``if``, ``with``, ``range``, ``define``, variables and pipelines.
"""

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from keyhouse.base.errors import BrokenError

_ACTION: Final = re.compile(r"(\s*)\{\{(- )?\s*(/\*.*?\*/|.*?)\s*( -)?\}\}(\s*)", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>-?[0-9]+)|(?P<variable>\$[A-Za-z_]*)"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<field>\.[A-Za-z_][A-Za-z0-9_]*)|(?P<mark>:=|[.()|,=]))"""
)


class Literal(NamedTuple):
    """A text, a number or a boolean in a template."""

    value: str | int | bool


class ValuePath(NamedTuple):
    """A value, and names of members below it: ``.Values.image``, ``$port``, ``(call).name``."""

    base: "str | Pipeline"  # ".", "$", a variable, or an expression in parentheses
    names: tuple[str, ...]


class FunctionCall(NamedTuple):
    """A call of a template function, with its operands."""

    function: str
    operands: "tuple[Operand, ...]"


Operand = Literal | ValuePath | FunctionCall


class Pipeline(NamedTuple):
    """Operands with ``|`` between them: each result is the last argument of the next call."""

    stages: tuple[Operand, ...]


class Text(NamedTuple):
    """A node for text of the template between two actions."""

    text: str


class Output(NamedTuple):
    """A node ``{{ pipeline }}`` of a template: the result becomes text of the output."""

    pipeline: Pipeline


class Assignment(NamedTuple):
    """A node ``{{ $variable := pipeline }}``: binds a variable until the end of the block."""

    variable: str
    pipeline: Pipeline


class Block(NamedTuple):
    """A node for ``if``, ``with`` or ``range``: ``body``, and ``otherwise`` after ``else``.

    ``variables`` are the names that the head binds, such as ``$key`` and ``$value`` of ``range``.
    """

    kind: str
    variables: tuple[str, ...]
    pipeline: Pipeline
    body: "tuple[Node, ...]"
    otherwise: "tuple[Node, ...]"


Node = Text | Output | Assignment | Block

_TRUE: Final = frozenset({"true"})
_BOOLEANS: Final = _TRUE | {"false"}
_FILE: Final = ValuePath(".", ("Files", "Get"))

_Piece = tuple[bool, str]  # whether the piece is an action, and its text


class TemplateSyntaxError(BrokenError):
    """The chart uses a construct of Go templates that this parser does not know."""


def parse(text: str, definitions: dict[str, tuple[Node, ...]]) -> tuple[Node, ...]:
    """Return the nodes of the template ``text``; add its ``define`` blocks to ``definitions``."""
    return _Parser(_pieces(text), definitions).template()


def _pieces(text: str) -> Iterator[_Piece]:
    position, trims = 0, False
    for match in _ACTION.finditer(text):
        before, left, action, right, after = match.groups()
        plain = text[position : match.start()] + before
        plain = plain.lstrip() if trims else plain
        yield False, plain.rstrip() if left else plain
        if not action.startswith("/*"):
            yield True, action
        trims, position = bool(right), match.end() - len(after)
    rest = text[position:]
    yield False, rest.lstrip() if trims else rest


class _Parser:
    """Parses the pieces of a template, texts and actions, into nodes with their blocks."""

    def __init__(self, pieces: Iterator[_Piece], definitions: dict[str, tuple[Node, ...]]) -> None:
        self._pieces = pieces
        self._definitions = definitions

    def template(self) -> tuple[Node, ...]:
        """Return the nodes of the whole template. Raises ``TemplateSyntaxError``."""
        nodes, end = self._nodes()
        if end:
            raise TemplateSyntaxError(
                f"a template of the chart has {{{{ {end} }}}} without a block"
            )
        return nodes

    def _nodes(self) -> tuple[tuple[Node, ...], str]:
        """Return the nodes before the next ``end`` or ``else``, and the text of that action.

        The text is "" if the template ends first.
        """
        made: list[Node] = []
        for is_action, piece in self._pieces:
            if not is_action:
                if piece:
                    made.append(Text(piece))
                continue
            word, _, rest = piece.partition(" ")
            if word in {"end", "else"}:
                return tuple(made), piece
            if word == "define":
                name = _Expression(rest).text()
                self._definitions[name], _ = self._nodes()
            elif word in {"if", "with", "range"}:
                made.append(self._block(word, rest))
            else:
                made.append(_statement(piece))
        return tuple(made), ""

    def _block(self, kind: str, head: str) -> Block:
        variables, pipeline = _head(head)
        body, end = self._nodes()
        otherwise: tuple[Node, ...] = ()
        word, _, rest = end.partition(" ")
        if word == "else" and rest:
            inner, _, condition = rest.partition(" ")
            otherwise = (self._block(inner, condition),)
        elif word == "else":
            otherwise, _ = self._nodes()
        return Block(kind, variables, pipeline, body, otherwise)


def _head(text: str) -> tuple[tuple[str, ...], Pipeline]:
    names, mark, rest = text.partition(":=")
    if not mark:
        return (), _Expression(text).pipeline()
    return tuple(name.strip() for name in names.split(",")), _Expression(rest).pipeline()


def _statement(text: str) -> Node:
    variables, pipeline = _head(text)
    return Assignment(variables[0], pipeline) if variables else Output(pipeline)


class _Expression:
    """Parses the tokens of an action, the text between ``{{`` and ``}}`` of a Go template."""

    def __init__(self, text: str) -> None:
        self._source = text
        self._tokens: list[tuple[str, str]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise TemplateSyntaxError(f"the chart has an unknown expression: {text}")
            # A space separates the operands ``.a .b``. Without a space, ``.a.b`` is one operand.
            joined = "" if text[position : match.start(match.lastgroup or 0)] else "joined "
            self._tokens.append((f"{joined}{match.lastgroup}", match[match.lastgroup or 0]))
            position = match.end()

    def text(self) -> str:
        """Return the value of the only token, a quoted text such as the name of a ``define``."""
        ((_, token),) = self._tokens
        return str(json.loads(token))

    def pipeline(self) -> Pipeline:
        """Return the pipeline of all tokens.

        Raises ``TemplateSyntaxError`` if the action is not a pipeline.
        """
        made = self._pipeline()
        if self._tokens:
            raise TemplateSyntaxError(f"the chart has an unknown expression: {self._source}")
        return made

    def _pipeline(self) -> Pipeline:
        stages = [self._command()]
        while self._tokens and self._tokens[0][1] == "|":
            self._tokens.pop(0)
            stages.append(self._command())
        return Pipeline(tuple(stages))

    def _command(self) -> Operand:
        kind, token = self._tokens[0]
        if not kind.endswith("word") or token in _BOOLEANS:
            operand = self._operand()
            return self._file() if operand == _FILE else operand
        self._tokens.pop(0)
        operands = []
        while self._tokens and self._tokens[0][1] not in {"|", ")"}:
            operands.append(self._operand())
        return FunctionCall(token, tuple(operands))

    def _file(self) -> FunctionCall:
        """Return ``.Files.Get NAME`` as a call of the function ``file``.

        Go templates have further methods, but the chart uses only this method.
        """
        return FunctionCall("file", (self._operand(),))

    def _operand(self) -> Operand:
        kind, token = self._tokens.pop(0)
        match kind.removeprefix("joined "):
            case "text" | "number":
                made: Operand = Literal(json.loads(token))
            case "word":
                made = Literal(token in _TRUE) if token in _BOOLEANS else FunctionCall(token, ())
            case "variable":
                made = ValuePath(token, self._names())
            case "field":
                made = ValuePath(".", (token[1:], *self._names()))
            case _ if token == ".":  # noqa: S105 a token of a template, not a secret
                made = ValuePath(".", ())
            case _ if token == "(":  # noqa: S105 the same
                inner = self._pipeline()
                self._tokens.pop(0)
                made = ValuePath(inner, self._names())
            case _:
                raise TemplateSyntaxError(f"the chart has an unknown expression: {self._source}")
        return made

    def _names(self) -> tuple[str, ...]:
        names = []
        while self._tokens and self._tokens[0][0] == "joined field":
            names.append(self._tokens.pop(0)[1][1:])
        return tuple(names)
