"""Commands and groups of commands: option groups, examples in the help, errors with exit codes.

Data go to standard output, messages to standard error.
"""

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from keyhouse.base.errors import KeyhouseError, RefusedError, UnavailableError
from keyhouse.base.printable import os_reason
from keyhouse.base.user_files import FileUnreadableError, reading_hint
from keyhouse.cli.output.show import ShownError, show_error
from keyhouse.cli.parser.help import Helping, summary_of, version_option, write_commands
from keyhouse.cli.parser.parameters import GENERAL, CommandSignature, Option
from keyhouse.cli.parser.usage import UnexpectedArgumentError, WrongUsageError, usage_error

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


AsJson = Annotated[
    bool, Option("--json", section=GENERAL, help="print one JSON object on one line; errors, too")
]

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
TRUST_FAILED: Final = 4

EXIT_CODES: Final[Mapping[int, str]] = {
    0: "done",
    REFUSED: "refused by the coordinator, or because of an invalid file or manifest",
    USAGE: "wrong usage",
    UNREACHABLE: "unreachable, or the coordinator requests a later retry",
    TRUST_FAILED: "trust failed: the quote or the certificate differs from the expectation; scripts"
    " must not retry",
}
"""The meanings of the exit codes, for man pages and the reference."""

ANY_WORDS: Final = {"ignore_unknown_options": True, "allow_extra_args": True}
"""Settings of a command that accepts any words after its name."""

_EXAMPLE: Final = "Example: "
_WIDTH: Final = 76  # columns of an example


class Command(Helping):
    """A command of the command line, made from a Python function.

    The fields of its option groups become options. The help shows the examples after the summary.
    An error of the function ends the process with a message and an exit code, not a traceback.
    """

    def __init__(
        self,
        name: str | None,
        *,
        callback: Callable[..., None],
        help: str,  # noqa: A002 the name that click has
        **others: Any,
    ) -> None:
        self._signature = CommandSignature(callback)
        self._function = callback
        others["params"] = [*self._signature.parameters, version_option(hidden=True)]
        super().__init__(name, help=_example_first(help), **others)

    allow_extra_args = True  # ``parse_args`` refuses them with Keyhouse's own text

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words ``args`` of the command line into the parser's context ``ctx``.

        Return the words without a parameter: none. Raises ``click.UsageError``.
        """
        rest = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise UnexpectedArgumentError(ctx.args[0], ctx)
        return rest

    def invoke(self, ctx: click.Context) -> None:
        """Call the command's function with the parameters that ``parse_args`` stored in ``ctx``."""
        try:
            self._function(**self._signature.arguments(ctx.params))
        except (KeyhouseError, OSError) as error:
            shown = error if isinstance(error, KeyhouseError) else _unusable_file(error)
            show_error(shown, as_json=bool(ctx.params.get("as_json")))
            sys.exit(exit_code(shown))


def command(function: Callable[..., None]) -> Command:
    """Return the command that calls ``function``, with options from its parameters."""
    return click.command(cls=Command)(function)


def exit_code(error: KeyhouseError) -> int:
    """Return the exit code of a command that ends with ``error``."""
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
    """Return the error of Keyhouse for ``error``, a failure of the operating system with a file.

    Raise ``error`` itself if it names no path, because then the output stream has failed.
    """
    if error.filename is None:
        raise error
    path = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
    return FileUnreadableError(
        f"cannot use {path}: {os_reason(error)}", hint=reading_hint(path, error)
    )


def _example_first(doc: str) -> str:
    """Return the docstring ``doc`` for the help, with the examples directly after the summary.

    A paragraph that begins with ``Example:`` is an example.
    """
    summary, *rest = inspect.cleandoc(doc).split("\n\n")
    examples = [_shell_lines(each) for each in rest if each.startswith(_EXAMPLE)]
    return "\n\n".join([summary, *examples, *(e for e in rest if not e.startswith(_EXAMPLE))])


def _shell_lines(paragraph: str) -> str:
    r"""Return the example in ``paragraph`` as a block of lines for a shell.

    Each line of the command but the last ends in a backslash. The mark ``\b`` before the block
    stops click from wrapping its lines.
    """
    lines = ["  "]
    for word in paragraph.removeprefix(_EXAMPLE).split():
        if len(lines[-1]) + len(word) > _WIDTH - 2:
            lines[-1] += "\\"
            lines.append("      ")
        lines[-1] += f"{word} "
    return "\n".join(["\b", "Example:", *(line.rstrip() for line in lines)])


Sections = Mapping[str, Sequence[tuple[str, str]]]
"""Names and summaries of commands by section of the help."""


class CommandGroup(Helping, click.Group):
    """Commands with a common first word, such as ``manifest``, in the order of their addition."""

    command_class = Command

    def __init__(self, **settings: Any) -> None:
        super().__init__(params=[version_option(hidden=True)], **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, also of commands that the help hides.

        ``ctx`` has no effect.
        """
        del ctx
        return list(self.commands)

    def add_alias(self, command: click.Command, name: str) -> None:
        """Add ``command`` under another name, which the help does not show."""
        hidden = copy(command)
        hidden.hidden = True
        self.add_command(hidden, name)

    def sections(self) -> Sections:
        """Return the only section of the help, with names and summaries of the commands."""
        shown = {name: command for name, command in self.commands.items() if not command.hidden}
        return {"Commands": [(name, summary_of(command)) for name, command in shown.items()]}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of the group, then its options, into the help.

        ``ctx`` is the parser's context of the group. ``formatter`` collects the help.
        """
        write_commands(self.sections(), formatter)
        super().format_options(ctx, formatter)


class Root(CommandGroup):
    """The command `keyhouse` itself, which handles errors of usage and ends the process."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.params = [version_option(hidden=False)]

    def main(  # type: ignore[override]  # mypy compares with each overload alone
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **settings: Any
    ) -> Any:
        """Run the command line ``args`` and end the process.

        None means the arguments of this process. ``prog_name`` is the name of the program in
        messages. With ``--json`` among the arguments, errors of usage are printed as JSON.
        """
        as_json = "--json" in (sys.argv if args is None else args)
        try:
            code = super().main(args, prog_name, standalone_mode=False, **settings)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(USAGE)
        except click.ClickException as error:
            show_error(usage_error(error), as_json=as_json)
            sys.exit(USAGE)
        except click.Abort:
            show_error(
                RefusedError("the command was interrupted", hint="repeat the command"),
                as_json=as_json,
            )
            sys.exit(REFUSED)
        sys.exit(code if isinstance(code, int) else 0)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Return the commands and options that begin with ``incomplete``, for a shell.

        The method imports no module of a command. ``ctx`` is the parser's context.
        """
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=summary)
            for rows in self.sections().values()
            for name, summary in rows
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]
