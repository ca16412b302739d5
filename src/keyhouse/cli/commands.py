"""Every command with its module, which is imported when the command is typed; runs that command."""

import os
import sys
import warnings
from importlib import import_module
from typing import Final, NamedTuple

import click

from keyhouse.base.printable import os_reason
from keyhouse.base.process.error_text import error_text
from keyhouse.base.process.standard_streams import write_error
from keyhouse.cli.output.show import stand_in_streams
from keyhouse.cli.parser import ANY_WORDS, REFUSED, Root, Sections


class Entry(NamedTuple):
    """A command, or a group of commands, and where it is defined."""

    name: str
    place: str  # module below keyhouse.cli, and what it is called there
    summary: str = ""  # as the first page shows it; what has none is not shown there


_OF_ENCLAVE: Final = "Print the identity of a signed enclave or a quote"

COMMANDS: Final = {
    "Start": (
        Entry("dev", "dev.command:dev", "Run a SIMULATED coordinator to try things on"),
        Entry("dev-machine", "dev_machine:dev_machine", "Make another SIMULATED machine"),
        Entry("console", "console:console", "Show deployments in a browser, and decide there"),
        Entry("doctor", "doctor.command:doctor", "Look for what is wrong, and say how to fix it"),
        Entry("context", "context:app", "Name deployments: where, who they must be, who you are"),
        Entry("completion", "completion:completion", "Print what completes commands in a shell"),
        Entry("version", "version:version", "Print the version of this program or a coordinator"),
    ),
    "Deployment": (
        Entry("status", "status:status", "Verify the coordinator's quote, then print its state"),
        Entry("manifest", "manifest.group:app", "Check, set, read and update manifests"),
        Entry("certificate", "certificate:app", "Get the certificates of a verified coordinator"),
        Entry("recover", "recover.group:app", "Bring back a state whose machine is lost"),
        Entry("recover-with-signature", "recover.group:with_signature_app"),
        Entry("log", "log.group:app", "Copy transparency logs, and check policies of witnesses"),
        Entry("evidence", "evidence:app", "Prove a deployment's history to outsiders"),
        Entry("watch", "watch.command:watch", "Follow transparency logs, and tell what is new"),
        Entry("trust", "trust:app", "See, accept and forget what is remembered of coordinators"),
    ),
    "Secrets": (Entry("secret", "secret:app", "Read and upload secrets"),),
    "Workloads": (
        Entry("workload", "workload:app", "List workloads that have joined, or were refused"),
        Entry("run", "commands:launch", "Join a deployment as a workload, then become a program"),
        Entry("attest", "attest.group:app", "Explain quotes, and rehearse how they are judged"),
        Entry("package-info", "attest.package_info:package_info", _OF_ENCLAVE),
    ),
    "Operate a coordinator": (
        Entry("serve", "commands:serve", "Run the coordinator"),
        Entry("store", "store.group:app", "Prepare, copy, check, list and restore stores"),
        Entry("backup", "store.group:backup", "Make a backup of a state directory"),
        Entry("restore", "store.group:restore_backup", "Put a backup into a state directory"),
        Entry("collateral", "attest.collateral:app", "Fetch, show and check what verifies quotes"),
    ),
    "": (
        Entry("install", "unsupported:install"),
        Entry("uninstall", "unsupported:uninstall"),
        Entry("precheck", "unsupported:precheck"),
        Entry("check", "unsupported:check"),
    ),
}
"""By the section of the help, in its order."""

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
    """All commands. The module of one is imported when it is typed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, hidden ones too."""
        del ctx
        return list(_ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, if there is one."""
        del ctx
        entry = _ENTRIES.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.place.partition(":")
        found: click.Command = getattr(import_module(f"keyhouse.cli.{module}"), name)
        if isinstance(found, click.Group):
            found.help = f"{entry.summary}." if entry.summary else found.help
        return found

    def sections(self) -> Sections:
        """Return the commands that the help shows; none is imported for that."""
        shown = {
            section: [(entry.name, entry.summary) for entry in entries if entry.summary]
            for section, entries in COMMANDS.items()
        }
        return {section: rows for section, rows in shown.items() if rows}


ROOT: Final = _Keyhouse(
    help="The trusted coordinator of a confidential-computing cluster.",
    epilog="Begin with: keyhouse dev",
)


def leave_out() -> None:
    """Let this process import no optional module that libraries import, and no command needs.

    httpx imports ``pygments`` and ``rich`` for a command of its own. Where another program has
    installed both, this takes as long as importing httpx itself. httpcore imports ``h2`` for
    HTTP/2, which no command speaks. httpcore also tries to import ``sniffio`` several times for
    each request: where it is not installed, each attempt searches all directories of modules, a
    quarter of the cost of a request. Both libraries work without these modules, and neither has
    a setting for that. A module that is ``None`` in ``sys.modules`` counts as not installed:
    https://docs.python.org/3/reference/import.html#the-module-cache
    """
    for name in ("pygments", "h2", "sniffio"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # typeshed knows no None


def run() -> None:
    """Run the command that was typed and end the process; no traceback is ever shown."""
    stand_in_streams()
    warnings.simplefilter("ignore")  # libraries warn of odd certificates in words of their own
    leave_out()
    try:
        try:
            ROOT.main(prog_name="keyhouse")
        finally:
            sys.stdout.flush()
    except OSError as error:
        # What could not be written is still in the buffer: Python would try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # whoever reads has seen enough, as in | head
            write_error(f"error: the output cannot be written: {os_reason(error)}\n")
    except Exception as error:  # noqa: BLE001 the last resort, which shows no text of the error
        from keyhouse.base.process.last_resort import UnexpectedError

        write_error(error_text(UnexpectedError.of(error)))
    sys.exit(REFUSED)
