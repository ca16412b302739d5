"""Format errors for commands: ``error:`` lines, then hints."""

from typing import Any

from keyhouse.base.errors import InvalidError, KeyhouseError
from keyhouse.base.printable import printable


def error_text(error: KeyhouseError) -> str:
    """Return ``error`` as lines. ``InvalidError`` has one line for each problem."""
    if isinstance(error, InvalidError):
        return _problems(error)
    return f"error: {printable(error.message)}\n{_hint(error)}"


def error_object(error: KeyhouseError) -> dict[str, Any]:
    """Return the object that ``--json`` prints. ``code`` is stable; texts are for people.

    The refusal of a coordinator also has ``reason``, a stable word, and the invalid ``fields``.
    """
    found: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.hint:
        found["hint"] = error.hint
    for name in ("reason", "fields", "problems"):
        value = getattr(error, name, None)
        if value:
            found[name] = value
    return {"error": found}


def _problems(error: InvalidError) -> str:
    count = len(error.problems)
    lines = [f"error: {printable(error.what)}: {count} problem{'s' if count != 1 else ''}\n"]
    for problem in error.problems:
        where = f"{problem.at}: " if problem.at else ""
        lines.append(f"  {printable(where + problem.problem)}\n")
        if problem.hint:
            lines.append(f"      hint: {printable(problem.hint)}\n")
    return "".join([*lines, _hint(error)])


def _hint(error: KeyhouseError) -> str:
    return f"hint: {printable(error.hint)}\n" if error.hint else ""
