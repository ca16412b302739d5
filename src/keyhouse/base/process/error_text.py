"""Format errors for commands: ``error:`` lines, then hints."""

from keyhouse.base.errors import InvalidError, KeyhouseError
from keyhouse.base.printable import printable


def error_text(error: KeyhouseError) -> str:
    """Return ``error`` as lines. ``InvalidError`` has one line for each problem."""
    if isinstance(error, InvalidError):
        return _problems(error)
    return f"error: {printable(error.message)}\n{_hint(error)}"


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
