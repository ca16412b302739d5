"""The mutants of a module: its text with one small change, each as a careless edit could make it.

Beside what such tools usually change (comparisons, constants, conditions), a statement is deleted
and a call loses an argument: the mistake to fear is a check that is gone. Texts, annotations, the
options of classes and lists of exports stay as they are.
"""

import ast
import copy
import difflib
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["Mutant", "mutants"]


class Mutant(NamedTuple):
    """A changed module."""

    place: str  # line of the original
    text: str  # of the whole module
    diff: str  # the changed lines only: stays the same when the code around it moves


_SWAPS: Final[dict[type[ast.AST], tuple[type[ast.AST], ...]]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}


def mutants(text: str) -> Iterator[Mutant]:
    """Return the mutants of a module's ``text``, in order, no two of them alike."""
    seen = {text}
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    raw = text.encode()
    for node, replacement in _changes(ast.parse(text)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        changed = (raw[:begin] + replacement.encode() + raw[end:]).decode()
        if changed not in seen:
            seen.add(changed)
            yield Mutant(str(node.lineno), changed, _diff(lines, changed))


def _diff(lines: list[str], changed: str) -> str:
    found = difflib.unified_diff(lines, changed.splitlines(keepends=True), n=0)
    return "".join(line for line in found if line[:3] not in {"---", "+++", "@@ "})


Located = ast.expr | ast.stmt


def _changes(node: ast.AST) -> Iterator[tuple[Located, str]]:
    """Return each node below ``node`` that is replaced, and the text that it gets."""
    for child in _visited(node):
        yield from _changes_of(child)
        yield from _changes(child)


def _visited(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases"}:
            continue
        if isinstance(node, ast.ClassDef) and name == "keywords":  # frozen and the like
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST) and not _is_left_alone(each):
                yield each


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Constant()):  # a docstring
            return True
        case ast.keyword(arg="hint"):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Subscript(value=ast.Name(id=name)):
            return name[:1].isupper()  # a type
    return False


def _changes_of(  # noqa: C901 a case each
    node: ast.AST,
) -> Iterator[tuple[Located, str]]:
    match node:
        case ast.Constant():
            yield from ((node, text) for text in _constants(node.value))
        case ast.Compare():
            yield from _compared(node)
        case ast.BinOp(op=ast.BitOr()):
            yield from ((node, ast.unparse(each)) for each in (node.left, node.right))
        case ast.BinOp() | ast.BoolOp():
            yield from _swapped(node)
            if isinstance(node, ast.BoolOp):
                yield from _without_one(node, "values")
        case ast.UnaryOp(op=ast.Not()):
            yield node, f"({ast.unparse(node.operand)})"
        case ast.If() | ast.While() | ast.IfExp():
            yield from ((node.test, text) for text in ("True", "False"))
        case ast.comprehension():
            yield from ((test, "True") for test in node.ifs)
        case (
            (ast.Expr() | ast.Raise() | ast.AugAssign() | ast.Delete() | ast.Break())
            | (ast.Continue() | ast.Return(value=None))
            | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
        ):
            yield node, "pass"
        case ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()) | ast.Set():
            yield from _without_one(node, "elts")
        case ast.Call():
            yield from _without_keyword(node)


def _constants(value: object) -> Iterator[str]:
    match value:
        case bool():
            yield str(not value)
        case int():
            yield f"({value + 1})"
            yield f"({value - 1})"
        case bytes():
            yield repr(value + b"?")


def _swapped(node: ast.BinOp | ast.BoolOp) -> Iterator[tuple[Located, str]]:
    for other in _SWAPS.get(type(node.op), ()):
        changed = copy.deepcopy(node)
        changed.op = other()  # type: ignore[assignment]  # of the same kind, as the table says
        yield node, f"({ast.unparse(changed)})"


def _compared(node: ast.Compare) -> Iterator[tuple[Located, str]]:
    for at, operator in enumerate(node.ops):
        for other in _SWAPS[type(operator)]:
            changed = copy.deepcopy(node)
            changed.ops[at] = other()  # type: ignore[call-overload]  # as above
            yield node, f"({ast.unparse(changed)})"


def _without_one(node: Located, field: str) -> Iterator[tuple[Located, str]]:
    parts = len(getattr(node, field))
    for at in range(parts if parts > 1 else 0):
        changed = copy.deepcopy(node)
        del getattr(changed, field)[at]
        yield node, f"({ast.unparse(changed)})"


def _without_keyword(node: ast.Call) -> Iterator[tuple[Located, str]]:
    for at, keyword in enumerate(node.keywords):
        if keyword.arg != "hint":
            changed = copy.deepcopy(node)
            del changed.keywords[at]
            yield node, ast.unparse(changed)
