"""Evaluate the expressions (CEL) of admission policies.

Values are those of JSON. A missing member, a missing name or a wrong type is an error, as in the
API server. ``&&`` and ``||`` ignore an error of one side if the other side decides alone.
Source: https://github.com/google/cel-spec/blob/master/doc/langdef.md.
"""

import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from keyhouse.cli.kube.webhook.syntax import (
    Binary,
    Conditional,
    Constant,
    Expression,
    Has,
    Index,
    Invocation,
    Items,
    Loop,
    MemberAccess,
    Name,
    Pairs,
    Unary,
)

_BUDGET: Final = 1_000_000
"""Evaluated nodes of a request: about two seconds. The API server limits the cost of policies, too.

Measured: the change of a pod with one container costs 567 (0.4 ms), and the refusal of a label in
a manifest of 200 marbles costs 72,000 (110 ms).
"""


class ExpressionError(Exception):
    """The evaluation of an expression failed: a missing name, a wrong type, or too many steps."""


class Budget:
    """The number of nodes that the expressions of a request may still evaluate: ``left``."""

    def __init__(self, left: int = _BUDGET) -> None:
        self._left = left

    def spend(self) -> None:
        """Count an evaluated node. Raises ``ExpressionError`` if the budget is used up."""
        self._left -= 1
        if self._left < 0:
            raise ExpressionError("the evaluation of the policy needs too many steps")


class Variables:
    """The named expressions of a policy. Each expression is evaluated at its first use only."""

    def __init__(self, definitions: Mapping[str, Expression]) -> None:
        self._definitions = definitions
        self._values: dict[str, Any] = {}

    def value(self, name: str, scope: "EvaluationScope") -> Any:
        """Return the value of the variable ``name``. Raises ``ExpressionError``.

        ``scope`` has the names for the first evaluation.
        """
        if name not in self._values:
            if name not in self._definitions:
                raise ExpressionError(f"the policy has no variable {name}")
            self._values[name] = scope.evaluate(self._definitions[name])
        return self._values[name]


class EvaluationScope:
    """The names for an expression, with their values, and the budget of the request."""

    def __init__(self, names: Mapping[str, Any], budget: Budget) -> None:
        self._names = dict(names)
        self._budget = budget

    def evaluate(self, node: Expression) -> Any:
        """Return the value of the expression ``node``. Raises ``ExpressionError``."""
        self._budget.spend()
        return _EVALUATORS[type(node)](self, node)

    def _name(self, node: Name) -> Any:
        if node.name not in self._names:
            raise ExpressionError(f"the policy uses the unknown name {node.name}")
        return self._names[node.name]

    def _member(self, node: MemberAccess) -> Any:
        target = self.evaluate(node.target)
        if isinstance(target, Variables):
            return target.value(node.name, self)
        return _item(target, node.name)

    def _has(self, node: Has) -> bool:
        target = self.evaluate(node.target)
        if not isinstance(target, Mapping):
            raise ExpressionError(
                f"the macro has() of the policy needs an object with members, to search {node.name}"
            )
        return node.name in target

    def _call(self, node: Invocation) -> Any:
        values = [self.evaluate(each) for each in node.operands]
        function = FUNCTIONS.get(node.function)
        if function is None:
            raise ExpressionError(f"the policy calls the unknown function {node.function}")
        try:
            return function(*values)
        except (TypeError, ValueError, AttributeError):
            raise ExpressionError(
                f"the policy calls {node.function}() with a value of an unsupported type"
            ) from None

    def _unary(self, node: Unary) -> Any:
        value = self.evaluate(node.value)
        if node.operator == "!":
            return not _boolean(value)
        return -_integer(value)

    def _binary(self, node: Binary) -> Any:
        if node.operator in {"&&", "||"}:
            return self._logical(node)
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        try:
            return _OPERATORS[node.operator](left, right)
        except TypeError:
            raise ExpressionError(
                f"the policy uses {node.operator} with values of unsupported types"
            ) from None

    def _logical(self, node: Binary) -> bool:
        """Return the result of ``&&`` or ``||`` in ``node``.

        A single False decides ``&&``, and a single True decides ``||``, even beside an error.
        """
        decisive = node.operator == "||"
        try:
            left = _boolean(self.evaluate(node.left))
        except ExpressionError:
            if _boolean(self.evaluate(node.right)) is decisive:
                return decisive
            raise
        return decisive if left is decisive else _boolean(self.evaluate(node.right))

    def _conditional(self, node: Conditional) -> Any:
        is_first = _boolean(self.evaluate(node.condition))
        return self.evaluate(node.first if is_first else node.second)

    def _items(self, node: Items) -> list[Any]:
        return [self.evaluate(each) for each in node.items]

    def _pairs(self, node: Pairs) -> dict[Any, Any]:
        return {_key(self.evaluate(name)): self.evaluate(value) for name, value in node.pairs}

    def _loop(self, node: Loop) -> Any:
        target = self.evaluate(node.target)
        if not isinstance(target, list | Mapping):
            raise ExpressionError(
                f"the macro {node.kind}() of the policy needs a list or an object"
            )
        results = self._iterations(node, target)
        if node.kind == "map":
            return [result() for _, result in results]
        if node.kind == "filter":
            return [item for item, result in results if _boolean(result())]
        return self._quantified([result for _, result in results], decisive=node.kind == "exists")

    def _iterations(self, node: Loop, target: Any) -> Iterator[tuple[Any, Callable[[], Any]]]:
        for item in target:
            inner = EvaluationScope({**self._names, node.variable: item}, self._budget)
            yield item, functools.partial(inner.evaluate, node.body)

    @staticmethod
    def _quantified(results: Sequence[Callable[[], Any]], *, decisive: bool) -> bool:
        """Return the result of ``exists`` (``decisive`` is True) or ``all`` (False).

        ``results`` evaluate the expression for each item. A single value equal to ``decisive``
        decides, even beside errors. Raises ``ExpressionError`` if an error prevents a decision.
        """
        failure: ExpressionError | None = None
        for result in results:
            try:
                if _boolean(result()) is decisive:
                    return decisive
            except ExpressionError as error:
                failure = error
        if failure is not None:
            raise failure
        return not decisive


_EVALUATORS: Final[Mapping[type, Callable[[EvaluationScope, Any], Any]]] = {
    Constant: lambda _, node: node.value,
    Name: EvaluationScope._name,  # noqa: SLF001 the class itself
    MemberAccess: EvaluationScope._member,  # noqa: SLF001
    Index: lambda scope, node: _item(scope.evaluate(node.target), scope.evaluate(node.key)),
    Has: EvaluationScope._has,  # noqa: SLF001
    Loop: EvaluationScope._loop,  # noqa: SLF001
    Invocation: EvaluationScope._call,  # noqa: SLF001
    Unary: EvaluationScope._unary,  # noqa: SLF001
    Binary: EvaluationScope._binary,  # noqa: SLF001
    Conditional: EvaluationScope._conditional,  # noqa: SLF001
    Items: EvaluationScope._items,  # noqa: SLF001
    Pairs: EvaluationScope._pairs,  # noqa: SLF001
}


def _item(target: Any, key: Any) -> Any:
    if isinstance(target, Mapping) and _key(key) in target:
        return target[key]
    if isinstance(target, list) and _is_integer(key) and 0 <= key < len(target):
        return target[key]
    raise ExpressionError(f"the policy reads the missing key {key}")


def _key(value: Any) -> str:
    if not isinstance(value, str):  # the objects of Kubernetes have no other keys
        raise ExpressionError("the policy reads a map with a key that is not a text")
    return value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ExpressionError("the policy needs a boolean, but the value has another type")
    return value


def _integer(value: Any) -> int:
    if not _is_integer(value):
        raise ExpressionError("the policy needs an integer, but the value has another type")
    return int(value)


def _equal(left: Any, right: Any) -> bool:
    # True equals 1 in Python, and is of another type in the language.
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _contains(item: Any, values: Any) -> bool:
    if isinstance(values, Mapping):
        return _key(item) in values
    if not isinstance(values, list):
        raise TypeError
    return any(_equal(item, each) for each in values)


def _sum(left: Any, right: Any) -> Any:
    if type(left) is not type(right) or not isinstance(left, str | list | int):
        raise TypeError
    return left + right


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": operator.lt,
    ">": operator.gt,
    "in": _contains,
    "+": _sum,
    "-": lambda left, right: _integer(left) - _integer(right),
}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(_integer(value))


def _matches(text: str, pattern: str) -> bool:
    # The end of a text is "$" in RE2, and "\Z" in Python.
    return re.search(pattern.replace("$", r"\Z"), text) is not None


def _lower_ascii(text: str) -> str:
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "contains": operator.contains,
    "indexOf": lambda values, item: values.index(item) if item in values else -1,
    "join": lambda values, mark="": mark.join(values),
    "lowerAscii": _lower_ascii,
    "matches": _matches,
    "min": min,
    "size": len,
    "split": lambda text, mark: text.split(mark) if mark else list(text),
    "startsWith": lambda text, part: text.startswith(part),
    "string": _text,
}
"""The functions and methods that the policies of the chart use. A method has its target first."""
