"""Every command with its module, which is imported when the command is typed; runs that command."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

import typer

from keyhouse.base.printable import os_reason
from keyhouse.base.process.error_text import error_text
from keyhouse.base.process.left_out import leave_out
from keyhouse.base.process.standard_streams import stand_in_streams, write_error
from keyhouse.cli.output.command import REFUSED, WrongUsageError
from keyhouse.cli.output.show import show_error

__all__ = ["COMMANDS", "app_of", "launch", "run", "serve"]


class Entry(NamedTuple):
    """A command, or a group of commands, and where it is defined."""

    name: str
    module: str  # below keyhouse.cli
    attribute: str = "app"
    hidden: bool = False


COMMANDS: Final = (
    Entry("dev", "dev.command", "dev"),
    Entry("doctor", "doctor.command", "doctor"),
    Entry("status", "status", "status"),
    Entry("manifest", "manifest.group"),
    Entry("certificate", "certificate"),
    Entry("secret", "secret"),
    Entry("recover", "recover.group"),
    Entry("recover-with-signature", "recover.group", "with_signature_app"),
    Entry("context", "context"),
    Entry("trust", "trust"),
    Entry("attest", "attest.group"),
    Entry("collateral", "attest.collateral"),
    Entry("package-info", "attest.package_info", "package_info"),
    Entry("store", "store.group"),
    Entry("backup", "store.group", "backup"),
    Entry("restore", "store.group", "restore_backup"),
    Entry("serve", "commands", "serve"),
    Entry("run", "commands", "launch"),
    Entry("completion", "completion", "completion"),
    Entry("version", "version", "version"),
    Entry("install", "unsupported", "install", hidden=True),
    Entry("uninstall", "unsupported", "uninstall", hidden=True),
    Entry("precheck", "unsupported", "precheck", hidden=True),
    Entry("check", "unsupported", "check", hidden=True),
)
"""In the order of the help."""

_ANY_OPTIONS: Final = {"ignore_unknown_options": True, "allow_extra_args": True}


def serve() -> None:
    """Run the coordinator. Its own help: keyhouse serve --help."""


def launch() -> None:
    """Join a deployment as a workload, then become a program. Its own help: keyhouse run --help."""


def app_of(words: Sequence[str]) -> typer.Typer:
    """Return an app with the command that ``words`` begin with; with all if they name none."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain text: no names cut off to fit boxes, and nothing to import
        help="The trusted coordinator of a confidential-computing cluster.",
        epilog="Begin with: keyhouse dev",
    )

    @app.callback()
    def keyhouse() -> None:
        """Be a group, also with one command."""

    named = [entry for entry in COMMANDS if words and entry.name == words[0]]
    for entry in named or COMMANDS:
        _register(app, entry)
    return app


def _register(app: typer.Typer, entry: Entry) -> None:
    found = getattr(import_module(f"keyhouse.cli.{entry.module}"), entry.attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=entry.name, hidden=entry.hidden)
        return
    is_listed_only = entry.module == "commands"  # serve and run have parsers of their own
    app.command(
        name=entry.name,
        hidden=entry.hidden,
        add_help_option=not is_listed_only,
        context_settings=_ANY_OPTIONS if is_listed_only or entry.module == "unsupported" else None,
    )(found)


def run() -> None:
    """Run the command that was typed and end the process; no traceback is ever shown."""
    stand_in_streams()
    leave_out("click", "pygments")
    try:
        try:
            _run_typed()
        finally:
            sys.stdout.flush()
    except OSError as error:
        # What could not be written is still in the buffer: Python would try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        write_error(f"error: the output cannot be written: {os_reason(error)}\n")
    except Exception as error:  # noqa: BLE001 the last resort, which shows no text of the error
        from keyhouse.base.process.last_resort import UnexpectedError

        write_error(error_text(UnexpectedError.of(error)))
    sys.exit(REFUSED)


def _run_typed() -> None:
    """Run the command. With ``--json`` the parser's errors are one JSON object, too."""
    app, as_json = app_of(sys.argv[1:]), "--json" in sys.argv
    if not as_json:
        app(prog_name="keyhouse")
    try:
        code = app(prog_name="keyhouse", standalone_mode=False)
    except Exception as error:
        text, code = getattr(error, "format_message", None), getattr(error, "exit_code", None)
        if text is None or code is None:
            raise
        message = str(text()).rstrip(".")
        show_error(WrongUsageError(message[:1].lower() + message[1:]), as_json=True)
        sys.exit(code)
    sys.exit(code if isinstance(code, int) else 0)
