"""Print the help: the summary, an example, then arguments and options in sections."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click

from keyhouse.cli.output.show import coloured
from keyhouse.cli.parser.parameters import GENERAL, section_of

_OWN: Final = "Options"
_FIRST_COLUMN: Final = 28  # columns, chosen for a terminal of 80


class _Formatter(click.HelpFormatter):
    """Formats the help as plain text. Headings are bold on a terminal."""

    def write_heading(self, heading: str) -> None:
        """Write ``heading`` on a line of its own."""
        shown = click.style(heading, bold=True) if coloured(sys.stdout) else heading
        self.write(f"{shown}:\n")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = _FIRST_COLUMN, col_spacing: int = 2
    ) -> None:
        """Write ``rows``, pairs of a term and its meaning, in two columns.

        The first column has at most ``col_max`` characters. ``col_spacing`` spaces separate the
        columns.
        """
        super().write_dl(rows, col_max, col_spacing)


class _Context(click.Context):
    """The parser's context of a command: it selects the format of the help, and adds ``-h``."""

    formatter_class = _Formatter

    def __init__(self, *args: Any, **settings: Any) -> None:
        settings.setdefault("help_option_names", ["-h", "--help"])
        super().__init__(*args, **settings)


def summary_of(command: click.Command) -> str:
    """Return the first paragraph of the help of ``command``, without its full stop."""
    return " ".join((command.help or "").split("\n\n")[0].split()).rstrip(".")


def version_option(*, hidden: bool) -> click.Option:
    """Return the option ``--version``, which prints the version and ends the process.

    ``hidden``: the help does not list the option.
    """

    def show(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value:
            from keyhouse import __version__

            click.echo(__version__)
            context.exit()

    return click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        hidden=hidden,
        callback=show,
        help="print the version",
    )


class Helping(click.Command):
    """A command, or a group of commands, with Keyhouse's format of help."""

    context_class = _Context

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words ``args``; store ``ctx``, the command's context, in an error of usage."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option ``--help`` with Keyhouse's text; ``ctx`` as for ``parse_args``."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = "print this help"
        return option

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the summary of the command for a list of commands. ``limit`` has no effect."""
        del limit  # summaries are short
        return summary_of(self)

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing: ``format_options`` writes the arguments. No parameter has an effect."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments and options of the command in sections.

        ``ctx`` is the parser's context of the command. ``formatter`` collects the help.
        """
        _write_parameters(self.get_params(ctx), ctx, formatter)


def _write_parameters(
    parameters: Sequence[click.Parameter], context: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write sections for arguments, own options, options of each group, and general options.

    ``parameters`` are the arguments and options of the command of ``context``. ``formatter``
    collects the help.
    """
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], _OWN: []}
    general: list[tuple[str, str]] = []
    for each in parameters:
        record = each.get_help_record(context)
        if record is None:
            continue
        name = "Arguments" if isinstance(each, click.Argument) else section_of(each) or _OWN
        (general if name == GENERAL else sections.setdefault(name, [])).append(record)
    _write({**sections, GENERAL: general}, formatter)


def write_commands(
    sections: Mapping[str, Sequence[tuple[str, str]]], formatter: click.HelpFormatter
) -> None:
    """Write the commands in ``sections``: each section has pairs of a name and a summary.

    The summaries of all sections begin in the same column. ``formatter`` collects the help.
    """
    width = max(len(name) for rows in sections.values() for name, _ in rows)
    padded = {
        section: [(name.ljust(width), summary) for name, summary in rows]
        for section, rows in sections.items()
    }
    _write(padded, formatter)


def _write(
    sections: Mapping[str, Sequence[tuple[str, str]]], formatter: click.HelpFormatter
) -> None:
    for name, rows in sections.items():
        if rows:
            with formatter.section(name):
                formatter.write_dl(rows)
