"""Commands under one word, and the first word of all."""

import sys
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import click

from keyhouse.base.errors import RefusedError
from keyhouse.cli.output.show import show_error
from keyhouse.cli.parser.command import REFUSED, USAGE, Command
from keyhouse.cli.parser.help import Helping, summary_of, version_option, write_commands
from keyhouse.cli.parser.usage import usage_error

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Sections = Mapping[str, Sequence[tuple[str, str]]]
"""Names and summaries of commands by the section of the help that shows them."""


class Group(Helping, click.Group):
    """Commands under one word, in the order in which they were added."""

    command_class = Command

    def __init__(self, **settings: Any) -> None:
        super().__init__(params=[version_option(hidden=True)], **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, hidden ones too."""
        del ctx
        return list(self.commands)

    def add_alias(self, command: click.Command, name: str) -> None:
        """Add ``command`` under a further name, which the help does not show."""
        hidden = copy(command)
        hidden.hidden = True
        self.add_command(hidden, name)

    def sections(self) -> Sections:
        """Return the commands that the help shows."""
        shown = {name: one for name, one in self.commands.items() if not one.hidden}
        return {"Commands": [(name, summary_of(one)) for name, one in shown.items()]}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        write_commands(self.sections(), formatter)
        super().format_options(ctx, formatter)


class Root(Group):
    """The first word: all errors of usage come through here, and so does how the process ends."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.params = [version_option(hidden=False)]

    def main(  # type: ignore[override]  # mypy compares with each overload alone
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **settings: Any
    ) -> Any:
        """Run the command and end the process. With ``--json`` errors of usage are one object."""
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
            show_error(RefusedError("interrupted"), as_json=as_json)
            sys.exit(REFUSED)
        sys.exit(code if isinstance(code, int) else 0)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Return what begins so: a command, of which no module is imported, or an option."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=summary)
            for rows in self.sections().values()
            for name, summary in rows
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]
