"""Parse an expression of an admission policy (CEL) into nodes.

The policies of the chart are the only source of the rules, so the webhook evaluates the same
expressions as the API server. The grammar is the part of the language that the chart uses. The
parser refuses every further construct. The webhook has its own parser, because no maintained
library for Python supports the messages of Kubernetes (``Object.spec{...}``).
Sources: https://github.com/google/cel-spec/blob/master/doc/langdef.md, "Syntax", and
https://kubernetes.io/docs/reference/using-api/cel/.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from keyhouse.base.errors import BrokenError

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<number>[0-9]+)"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<mark>&&|\|\||[=!<>]=|[-+!<>?:.,()\[\]{}]))"""
)
_LOOPS: Final = frozenset({"all", "exists", "filter", "map"})
_LEVELS: Final = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"==", "!=", "<", ">", "in"}),
    frozenset({"+", "-"}),
)
"""Operators between two values. Later levels bind more tightly."""

_CONSTANTS: Final = {"true": True, "false": False, "null": None}


class Constant(NamedTuple):
    """A node for a text, a number, a boolean or null."""

    value: str | int | bool | None


class Name(NamedTuple):
    """A node for a name of the scope, such as ``object``."""

    name: str


class MemberAccess(NamedTuple):
    """A node for a member of an object: ``target.name``."""

    target: "Expression"
    name: str


class Index(NamedTuple):
    """A node for a member of an object, or an item of a list, by a key: ``target[key]``."""

    target: "Expression"
    key: "Expression"


class Has(NamedTuple):
    """A node for the test whether an object has a member: ``has(target.name)``."""

    target: "Expression"
    name: str


class Loop(NamedTuple):
    """A node for a macro over a list or the keys of an object: ``target.kind(variable, body)``.

    ``kind`` is ``map``, ``filter``, ``all`` or ``exists``.
    """

    kind: str
    target: "Expression"
    variable: str
    body: "Expression"


class Invocation(NamedTuple):
    """A node for a call of a function or a method. A method's first operand is its target."""

    function: str
    operands: "tuple[Expression, ...]"


class Unary(NamedTuple):
    """A node for ``!value`` or ``-value``."""

    operator: str
    value: "Expression"


class Binary(NamedTuple):
    """A node for an operator between two expressions."""

    operator: str
    left: "Expression"
    right: "Expression"


class Conditional(NamedTuple):
    """A node for ``condition ? first : second``."""

    condition: "Expression"
    first: "Expression"
    second: "Expression"


class Items(NamedTuple):
    """A node for a list: ``[first, second]``."""

    items: "tuple[Expression, ...]"


class Pairs(NamedTuple):
    """A node for an object with computed names, or for a message such as ``Object.spec{...}``."""

    pairs: "tuple[tuple[Expression, Expression], ...]"


Expression = (
    Constant
    | Name
    | MemberAccess
    | Index
    | Has
    | Loop
    | Invocation
    | Unary
    | Binary
    | Conditional
    | Items
    | Pairs
)


class ExpressionSyntaxError(BrokenError):
    """A policy of the chart uses a construct that the webhook does not know."""


def parse(text: str) -> Expression:
    """Return the nodes of the expression ``text``. Raises ``ExpressionSyntaxError``."""
    parser = _Parser(_tokens(text), text)
    expression = parser.expression()
    parser.expect("")
    return expression


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each token in ``text``, then a token with an empty text."""
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ExpressionSyntaxError(
                "the policy of the chart has unknown text in an expression:"
                f" {text[position:][:40]!r}"
            )
        yield match.lastgroup, match[match.lastgroup]
        position = match.end()
    yield "mark", ""


class _Parser:
    """Reads tokens from the left to the right, with one token in advance."""

    def __init__(self, tokens: Iterator[tuple[str, str]], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._kind, self._word = next(tokens)

    def expect(self, mark: str) -> None:
        """Read the token ``mark``; "" means the end of the text.

        Raises ``ExpressionSyntaxError`` for any other token.
        """
        if not self._read(mark):
            raise self._unexpected()

    def _unexpected(self) -> ExpressionSyntaxError:
        return ExpressionSyntaxError(
            f"the policy of the chart has the unexpected word {self._word!r} in the expression"
            f" {self._text!r}"
        )

    def _advance(self) -> str:
        word = self._word
        self._kind, self._word = next(self._tokens, ("mark", ""))
        return word

    def _read(self, mark: str) -> bool:
        """Return whether the next token is ``mark``; if so, advance to the token after it."""
        found = self._kind != "text" and self._word == mark
        if found:
            self._advance()
        return found

    def expression(self) -> Expression:
        """Read and return a whole expression: a conditional, or an expression with operators."""
        condition = self._binary(0)
        if not self._read("?"):
            return condition
        first = self._binary(0)
        self.expect(":")
        return Conditional(condition, first, self.expression())

    def _binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._kind != "text" and self._word in _LEVELS[level]:
            operator = self._advance()
            left = Binary(operator, left, self._binary(level + 1))
        return left

    def _unary(self) -> Expression:
        for operator in ("!", "-"):
            if self._read(operator):
                return Unary(operator, self._unary())
        return self._postfix(self._primary())

    def _postfix(self, value: Expression) -> Expression:
        while True:
            if self._read("."):
                name = self._name()
                value = self._method(value, name) if self._read("(") else MemberAccess(value, name)
            elif self._read("["):
                value = Index(value, self.expression())
                self.expect("]")
            elif self._word == "{" and self._kind == "mark" and _is_type(value):
                self._advance()
                value = Pairs(self._pairs("}", lambda: Constant(self._name())))
            else:
                return value

    def _name(self) -> str:
        if self._kind != "word":
            raise self._unexpected()
        return self._advance()

    def _method(self, target: Expression, name: str) -> Expression:
        if name not in _LOOPS:
            return Invocation(name, (target, *self._items(")")))
        variable = self._name()
        self.expect(",")
        body = self.expression()
        self.expect(")")
        return Loop(name, target, variable, body)

    def _items(self, end: str) -> tuple[Expression, ...]:
        """Read expressions between commas until the token ``end``. A last comma is permitted."""
        made = []
        while not self._read(end):
            made.append(self.expression())
            if not self._read(","):
                self.expect(end)
                break
        return tuple(made)

    def _pairs(
        self, end: str, name: Callable[[], Expression]
    ) -> tuple[tuple[Expression, Expression], ...]:
        made = []
        while not self._read(end):
            key = name()
            self.expect(":")
            made.append((key, self.expression()))
            if not self._read(","):
                self.expect(end)
                break
        return tuple(made)

    def _primary(self) -> Expression:
        if self._kind == "text":
            return Constant(self._literal_text())
        if self._kind == "number":
            return Constant(int(self._advance()))
        if self._kind == "word":
            return self._word_or_call(self._advance())
        if self._read("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if self._read("["):
            return Items(self._items("]"))
        if self._read("{"):
            return Pairs(self._pairs("}", self.expression))
        raise self._unexpected()

    def _literal_text(self) -> str:
        try:
            decoded = json.loads(self._word)  # the chart writes the escapes of JSON only
        except ValueError:
            raise self._unexpected() from None
        self._advance()
        return str(decoded)

    def _word_or_call(self, word: str) -> Expression:
        if word in _CONSTANTS:
            return Constant(_CONSTANTS[word])
        if not self._read("("):
            return Name(word)
        if word != "has":
            return Invocation(word, self._items(")"))
        member = self.expression()
        self.expect(")")
        if not isinstance(member, MemberAccess):
            raise ExpressionSyntaxError(
                "the policy of the chart calls has() without a member in the expression"
                f" {self._text!r}"
            )
        return Has(member.target, member.name)


def _is_type(value: Expression) -> bool:
    """Return whether ``value`` is the name of a type, such as ``Object.spec``."""
    while isinstance(value, MemberAccess):
        value = value.target
    return isinstance(value, Name) and value.name in {"Object", "JSONPatch"}
