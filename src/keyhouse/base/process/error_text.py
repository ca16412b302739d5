"""Errors as a command prints them: ``error:`` lines, then hints."""

from typing import Any

from keyhouse.base.errors import InvalidError, KeyhouseError
from keyhouse.base.printable import printable


def error_text(error: KeyhouseError) -> str:
    """Return ``error`` as lines with their ends; every problem of ``InvalidError`` on its own."""
    if isinstance(error, InvalidError):
        return _problems(error)
    hint = f"hint: {printable(error.hint)}\n" if error.hint else ""
    return f"error: {printable(error.message)}\n{hint}"


def error_object(error: KeyhouseError) -> dict[str, Any]:
    """Return what ``--json`` prints of ``error``: ``code`` is stable, texts are for people.

    What a coordinator refused has its ``reason``, a stable word too, and the ``fields`` at fault.
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
    return "".join(lines)
