"""What every command has: grouped options, examples in its help, errors with exit codes.

Data go to standard output, messages to standard error. Exit codes: 0 done, 1 refused, 2 usage,
3 unreachable or busy, 4 trust failed (scripts must not try again).
"""

import inspect
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, Final

import click

from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.base.named_files import reading_hint
from keyhouse.base.printable import os_reason
from keyhouse.cli.output.files import FileUnreadableError
from keyhouse.cli.output.show import ShownError, show_error
from keyhouse.cli.parser.help import Helping, version_option
from keyhouse.cli.parser.parameters import GENERAL, Option, Signature
from keyhouse.cli.parser.usage import UnexpectedArgumentError, WrongUsageError

AsJson = Annotated[
    bool, Option("--json", section=GENERAL, help="print one JSON object; errors, too")
]

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
TRUST_FAILED: Final = 4

ANY_WORDS: Final = {"ignore_unknown_options": True, "allow_extra_args": True}
"""Settings of a command that takes whatever follows it."""

_EXAMPLE: Final = "Example: "
_WIDTH: Final = 76  # columns of an example


class Command(Helping):
    """A function as a command.

    Its option groups are flattened, its examples come first in the help, and its errors end the
    process with a message and an exit code instead of a traceback.
    """

    def __init__(
        self,
        name: str | None,
        *,
        callback: Callable[..., None],
        help: str,  # noqa: A002 the name that click has
        **others: Any,
    ) -> None:
        self._signature = Signature(callback)
        self._function = callback
        others["params"] = [*self._signature.parameters, version_option(hidden=True)]
        super().__init__(name, help=_example_first(help), **others)

    allow_extra_args = True  # to the parser, which would word it otherwise; ``parse_args`` refuses

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words of the command line. Raises ``click.UsageError``."""
        rest = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise UnexpectedArgumentError(ctx.args[0], ctx)
        return rest

    def invoke(self, ctx: click.Context) -> None:
        """Call the function with what was parsed."""
        try:
            self._function(**self._signature.arguments(ctx.params))
        except (KeyhouseError, OSError) as error:
            shown = error if isinstance(error, KeyhouseError) else _unusable_file(error)
            show_error(shown, as_json=bool(ctx.params.get("as_json")))
            sys.exit(exit_code(shown))


def command(function: Callable[..., None]) -> Command:
    """Return ``function`` as a command."""
    return click.command(cls=Command)(function)


def exit_code(error: KeyhouseError) -> int:
    """Return the exit code for ``error``."""
    from keyhouse.client import TrustError
    from keyhouse.evidence.errors import EvidenceRefusedError

    if isinstance(error, ShownError):
        return exit_code(error.cause)
    if isinstance(error, TrustError | EvidenceRefusedError):
        return TRUST_FAILED
    if isinstance(error, WrongUsageError):
        return USAGE
    return UNREACHABLE if isinstance(error, UnavailableError) else REFUSED


def _unusable_file(error: OSError) -> FileUnreadableError:
    """Return ``error`` as one of Keyhouse; one without a path, of the output, is raised again."""
    if error.filename is None:
        raise error
    path = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
    return FileUnreadableError(
        f"cannot use {path}: {os_reason(error)}", hint=reading_hint(path, error)
    )


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
