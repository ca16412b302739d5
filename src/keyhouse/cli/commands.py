"""List every command with its module, import the module of the given command, and run it.

`keyhouse` imports only the module of the given command, because an import of all modules takes
much longer.
"""

import os
import sys
import warnings
from importlib import import_module
from typing import Final, NamedTuple

import click

from keyhouse.base.log import write_error
from keyhouse.base.printable import os_reason
from keyhouse.base.process.error_text import error_text
from keyhouse.cli.output.show import stand_in_streams
from keyhouse.cli.parser import ANY_WORDS, REFUSED, Root, Sections


class CommandEntry(NamedTuple):
    """A command, or a group of commands. ``place``: module and name of its definition."""

    name: str
    place: str  # module below keyhouse.cli, and the name in this module
    summary: str = ""  # for the first page of the help; the page omits entries without a summary


_OF_ENCLAVE: Final = "Print the identity of a signed enclave or a quote"

COMMANDS: Final = {
    "Start": (
        CommandEntry(
            "dev", "dev.command:dev", "Run a SIMULATED coordinator for tests and first steps"
        ),
        CommandEntry("dev-machine", "dev_machine:dev_machine", "Make another SIMULATED machine"),
        CommandEntry(
            "console", "console:console", "Show deployments in a browser, and approve updates"
        ),
        CommandEntry(
            "doctor", "doctor.command:doctor", "Search for problems, and print how to fix them"
        ),
        CommandEntry("context", "context:app", "Store the options of deployments under names"),
        CommandEntry(
            "completion", "completion:completion", "Print a completion script for a shell"
        ),
        CommandEntry("version", "version:version", "Print versions, and verify a release"),
    ),
    "Deployment": (
        CommandEntry(
            "status", "status:status", "Verify the coordinator's quote, then print its state"
        ),
        CommandEntry("manifest", "manifest.group:app", "Check, set, read and update manifests"),
        CommandEntry(
            "certificate", "certificate:app", "Get the certificates of a verified coordinator"
        ),
        CommandEntry(
            "recover", "recover.group:app", "Restore a state after the loss of its machine"
        ),
        CommandEntry("recover-with-signature", "recover.group:with_signature_app"),
        CommandEntry(
            "log", "log.group:app", "Copy transparency logs, and check policies of witnesses"
        ),
        CommandEntry("evidence", "evidence:app", "Prove a deployment's history to outsiders"),
        CommandEntry(
            "watch",
            "watch.command:watch",
            "Follow transparency logs, and print new leaves and alerts",
        ),
        CommandEntry("trust", "trust:app", "Show, accept and forget remembered coordinators"),
    ),
    "Secrets": (CommandEntry("secret", "secret:app", "Read and upload secrets"),),
    "Workloads": (
        CommandEntry(
            "workload", "workload:app", "List activations and refused activations of workloads"
        ),
        CommandEntry(
            "run", "commands:launch", "Join a deployment as a workload, then become a program"
        ),
        CommandEntry("attest", "attest.group:app", "Explain quotes, and rehearse their appraisal"),
        CommandEntry("package-info", "attest.package_info:package_info", _OF_ENCLAVE),
    ),
    "Operate a coordinator": (
        CommandEntry("serve", "commands:serve", "Run the coordinator"),
        CommandEntry("kube", "kube.group:app", "Install and observe a coordinator in Kubernetes"),
        CommandEntry("store", "store.group:app", "Prepare, copy, check, list and restore stores"),
        CommandEntry("backup", "store.group:backup", "Make a backup of a state directory"),
        CommandEntry(
            "restore", "store.group:restore_backup", "Put a backup into a state directory"
        ),
        CommandEntry(
            "collateral", "attest.collateral:app", "Fetch, show and check collateral for quotes"
        ),
    ),
    "": (
        CommandEntry("install", "unsupported:install"),
        CommandEntry("uninstall", "unsupported:uninstall"),
        CommandEntry("precheck", "unsupported:precheck"),
        CommandEntry("check", "unsupported:check"),
    ),
}
"""Commands by section of the help, in the order of the help."""

_ENTRIES: Final = {entry.name: entry for section in COMMANDS.values() for entry in section}

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


class _Keyhouse(Root):
    """The command `keyhouse`. It imports the module of a subcommand at the first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, also of commands that the help hides.

        ``ctx`` has no effect.
        """
        del ctx
        return list(_ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command ``cmd_name``; None for an unknown name.

        ``ctx`` has no effect.
        """
        del ctx
        entry = _ENTRIES.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.place.partition(":")
        command: click.Command = getattr(import_module(f"keyhouse.cli.{module}"), name)
        if isinstance(command, click.Group):
            command.help = f"{entry.summary}." if entry.summary else command.help
        return command

    def sections(self) -> Sections:
        """Return each section of the help, with names and summaries of its commands.

        The method imports no module of a command.
        """
        shown = {
            section: [(entry.name, entry.summary) for entry in entries if entry.summary]
            for section, entries in COMMANDS.items()
        }
        return {section: rows for section, rows in shown.items() if rows}


ROOT: Final = _Keyhouse(
    help="The trusted coordinator of a confidential-computing cluster.",
    epilog="Begin with: keyhouse dev",
)


def block_unused_imports() -> None:
    """Stop libraries from importing optional modules, because no command needs these modules.

    httpx imports ``pygments`` and ``rich`` for its own command. If both are installed, their import
    takes as long as the import of httpx itself. httpcore imports ``h2`` for HTTP/2, which no
    command uses. httpcore also tries to import ``sniffio`` several times for each request. If
    ``sniffio`` is missing, each attempt searches all directories of modules. These searches take a
    quarter of the time of a request. Both libraries work without these modules, and neither library
    has a setting to omit them. A module that is ``None`` in ``sys.modules`` counts as not
    installed: https://docs.python.org/3/reference/import.html#the-module-cache
    """
    for name in ("pygments", "h2", "sniffio"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # typeshed knows no None


def run() -> None:
    """Run the command of the command line and end the process, never with a traceback."""
    stand_in_streams()
    warnings.simplefilter("ignore")  # libraries print their own warnings about unusual certificates
    block_unused_imports()
    try:
        try:
            ROOT.main(prog_name="keyhouse")
        finally:
            sys.stdout.flush()
    except OSError as error:
        # The unwritten output is still in the buffer. Python would write it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # a closed pipe is normal, as in | head
            write_error(
                f"error: cannot write the output: {os_reason(error)}\n"
                "hint: check the file or the device that receives the output\n"
            )
    except Exception as error:  # noqa: BLE001 the last handler, which hides the error's text
        from keyhouse.base.process.crash_report import UnexpectedError

        write_error(error_text(UnexpectedError.of(error)))
    sys.exit(REFUSED)
