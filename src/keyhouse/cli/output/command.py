"""What every command has: grouped options, examples in its help, errors with exit codes.

Data go to standard output, messages to standard error. Exit codes: 0 done, 1 refused, 2 usage,
3 unreachable or busy, 4 trust failed (scripts must not try again).
"""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, get_type_hints

import msgspec
import typer

from keyhouse.base.errors import KeyhouseError, RefusedError, UnavailableError
from keyhouse.base.printable import os_reason
from keyhouse.cli.output.files import FileUnreadableError
from keyhouse.cli.output.show import show_error

__all__ = [
    "REFUSED",
    "TRUST_FAILED",
    "AsJson",
    "OptionGroup",
    "WrongUsageError",
    "command",
    "exit_code",
]

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object; errors, too")]

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
TRUST_FAILED: Final = 4

_EXAMPLE: Final = "Example: "
_WIDTH: Final = 76  # columns of an example


class WrongUsageError(RefusedError):
    """Options are missing, or cannot be combined: exit code 2, as for errors of the parser."""

    code = "usage"


class OptionGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Options and arguments that several commands share, each a field annotated as for typer.

    A command has a parameter of this type; typer sees the fields in its place.
    """

    def check(self, beside: Iterable["OptionGroup"]) -> None:
        """Raise ``WrongUsageError`` if the options contradict each other, or those of other groups.

        Called before the command does anything.
        """


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return ``function`` as typer registers it.

    Its option groups are flattened, its examples come first in the help, and its errors end the
    process with a message and an exit code instead of a traceback.
    """
    flat = _flattened(function)

    @functools.wraps(flat)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            flat(*args, **kwargs)
        except (KeyhouseError, OSError) as error:
            shown = error if isinstance(error, KeyhouseError) else _unusable_file(error)
            show_error(shown, as_json=bool(kwargs.get("as_json")))
            sys.exit(exit_code(shown))

    run.__doc__ = _example_first(function.__doc__ or "")
    return run


def exit_code(error: KeyhouseError) -> int:
    """Return the exit code for ``error``."""
    from keyhouse.client import TrustError

    if isinstance(error, TrustError):
        return TRUST_FAILED
    if isinstance(error, WrongUsageError):
        return USAGE
    return UNREACHABLE if isinstance(error, UnavailableError) else REFUSED


def _unusable_file(error: OSError) -> FileUnreadableError:
    """Return ``error`` as one of ours. Without a path it is about the output, and raised again."""
    if error.filename is None:
        raise error
    path = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
    return FileUnreadableError(f"cannot use {path}: {os_reason(error)}")


def _flattened(function: Callable[..., None]) -> Callable[..., None]:
    """Return ``function`` with the fields of its option groups as parameters, each in its place."""
    own = inspect.signature(function, eval_str=True).parameters.values()
    groups = {one.name: one.annotation for one in own if _is_group(one.annotation)}
    if not groups:
        return function
    fields = {name: _parameters(group) for name, group in groups.items()}

    @functools.wraps(function)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields[name]})
        for name in groups:
            given[name].check([given[other] for other in groups])
        function(**given)

    parameters = [
        each
        for one in own
        for each in fields.get(one.name, [one.replace(kind=inspect.Parameter.KEYWORD_ONLY)])
    ]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _is_group(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, OptionGroup)


def _parameters(group: type[OptionGroup]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )
        for field in msgspec.structs.fields(group)
    ]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return inspect.Parameter.empty


def _example_first(doc: str) -> str:
    """Return a docstring with its paragraphs ``Example: ...`` second, as a shell takes them."""
    summary, *rest = inspect.cleandoc(doc).split("\n\n")
    examples = [_shell_lines(each) for each in rest if each.startswith(_EXAMPLE)]
    return "\n\n".join([summary, *examples, *(e for e in rest if not e.startswith(_EXAMPLE))])


def _shell_lines(paragraph: str) -> str:
    r"""Return a block that click does not wrap (``\b``): one command over continued lines."""
    lines = ["  "]
    for word in paragraph.removeprefix(_EXAMPLE).split():
        if len(lines[-1]) + len(word) > _WIDTH - 2:
            lines[-1] += "\\"
            lines.append("      ")
        lines[-1] += f"{word} "
    return "\n".join(["\b", "Example:", *(line.rstrip() for line in lines)])
