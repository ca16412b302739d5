"""Every command with its module, which is imported when the command is typed; runs that command."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from keyhouse.base.printable import os_reason
from keyhouse.base.process.error_text import error_text
from keyhouse.base.process.left_out import leave_out
from keyhouse.base.process.standard_streams import stand_in_streams, write_error
from keyhouse.cli.output.show import show_error
from keyhouse.cli.parser.command import ANY_WORDS, REFUSED, Group, WrongUsageError

__all__ = ["COMMANDS", "ROOT", "launch", "run", "serve"]


class Entry(NamedTuple):
    """A command, or a group of commands, and where it is defined."""

    name: str
    module: str  # below keyhouse.cli
    attribute: str = "app"


COMMANDS: Final = (
    Entry("dev", "dev.command", "dev"),
    Entry("doctor", "doctor.command", "doctor"),
    Entry("status", "status", "status"),
    Entry("manifest", "manifest.group"),
    Entry("certificate", "certificate"),
    Entry("secret", "secret"),
    Entry("workload", "workload"),
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
    Entry("install", "unsupported", "install"),
    Entry("uninstall", "unsupported", "uninstall"),
    Entry("precheck", "unsupported", "precheck"),
    Entry("check", "unsupported", "check"),
)
"""In the order of the help."""

serve = click.Command(
    "serve",
    help="Run the coordinator. Its own help: keyhouse serve --help.",
    add_help_option=False,
    context_settings=ANY_WORDS,
)
launch = click.Command(
    "run",
    help="Join a deployment as a workload, then become a program."
    " Its own help: keyhouse run --help.",
    add_help_option=False,
    context_settings=ANY_WORDS,
)


class _Root(Group):
    """All commands; the module of one is imported when it is typed, or when all are listed."""

    def __init__(self) -> None:
        super().__init__(
            help="The trusted coordinator of a confidential-computing cluster.",
            epilog="Begin with: keyhouse dev",
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        del ctx
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, if there is one."""
        del ctx
        for entry in COMMANDS:
            if entry.name == cmd_name:
                module = import_module(f"keyhouse.cli.{entry.module}")
                found: click.Command = getattr(module, entry.attribute)
                return found
        return None

    def main(  # type: ignore[override]  # mypy compares with each overload alone
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **settings: Any
    ) -> Any:
        """Run the command and end the process. With ``--json`` errors of usage are one object."""
        as_json = "--json" in (sys.argv if args is None else args)
        try:
            code = super().main(args, prog_name, standalone_mode=not as_json, **settings)
        except click.ClickException as error:
            message = error.format_message().rstrip(".")
            show_error(WrongUsageError(message[:1].lower() + message[1:]), as_json=True)
            sys.exit(error.exit_code)
        sys.exit(code if isinstance(code, int) else 0)


ROOT: Final = _Root()


def run() -> None:
    """Run the command that was typed and end the process; no traceback is ever shown."""
    stand_in_streams()
    leave_out("pygments")
    try:
        try:
            ROOT.main(prog_name="keyhouse")
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
