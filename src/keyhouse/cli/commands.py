"""The commands that people type, each in a file of its own."""

import typer

from keyhouse.cli.manifest import app as manifest_app
from keyhouse.cli.status import status

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="The trusted coordinator of a confidential-computing cluster.",
    epilog="Begin with: keyhouse serve --platform simulation",
)

app.command(name="status")(status)
app.add_typer(manifest_app, name="manifest")


@app.command(name="serve", add_help_option=False, context_settings={"ignore_unknown_options": True})
def serve() -> None:
    """Run the coordinator. Its own help: keyhouse serve --help."""


@app.command(name="version")
def version() -> None:
    """Print the version."""
    from keyhouse import __version__

    typer.echo(__version__)
