"""The commands that people type, each in a file of its own."""

import os
import sys

import typer

from keyhouse.cli.attest import app as attest_app
from keyhouse.cli.collateral import app as collateral_app
from keyhouse.cli.dev import dev
from keyhouse.cli.error_text import error_text
from keyhouse.cli.manifest import app as manifest_app
from keyhouse.cli.recover import app as recover_app
from keyhouse.cli.secret import app as secret_app
from keyhouse.cli.standard_error import write_error
from keyhouse.cli.status import status
from keyhouse.cli.store import app as store_app
from keyhouse.cli.talk import REFUSED
from keyhouse.cli.trust import app as trust_app

__all__ = ["app", "run"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="The trusted coordinator of a confidential-computing cluster.",
    epilog="Begin with: keyhouse dev",
)

app.command(name="dev")(dev)
app.command(name="status")(status)
app.add_typer(manifest_app, name="manifest")
app.add_typer(secret_app, name="secret")
app.add_typer(recover_app, name="recover")
app.add_typer(store_app, name="store")
app.add_typer(attest_app, name="attest")
app.add_typer(collateral_app, name="collateral")
app.add_typer(trust_app, name="trust")


@app.command(name="serve", add_help_option=False, context_settings={"ignore_unknown_options": True})
def serve() -> None:
    """Run the coordinator. Its own help: keyhouse serve --help."""


@app.command(name="run", add_help_option=False, context_settings={"ignore_unknown_options": True})
def launch() -> None:
    """Join a deployment as a workload, then become a program. Its own help: keyhouse run --help."""


@app.command(name="version")
def version() -> None:
    """Print the version."""
    from keyhouse import __version__

    typer.echo(__version__)


def run() -> None:
    """Run the command that was typed and end the process; no traceback is ever shown."""
    try:
        try:
            app(prog_name="keyhouse")
        finally:
            sys.stdout.flush()
    except OSError as error:
        # What could not be written is still in the buffer: Python would try again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        reason = os.strerror(error.errno).lower() if error.errno else "unknown reason"
        write_error(f"error: the output cannot be written: {reason}\n")
    except Exception as error:  # noqa: BLE001 the last resort, which tells no text of the error
        from keyhouse.cli.last_resort import Unexpected

        write_error(error_text(Unexpected.of(error)))
    sys.exit(REFUSED)
