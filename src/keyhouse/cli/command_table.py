"""Every command's name and the file that it is in, which is read when the command is typed."""

from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

import typer

__all__ = ["COMMANDS", "app_of", "whole_app"]


class Place(NamedTuple):
    """Where a command, or a group of commands, is."""

    name: str
    module: str  # below keyhouse.cli
    attribute: str = "app"
    hidden: bool = False


COMMANDS: Final = (
    Place("dev", "dev.command", "dev"),
    Place("doctor", "doctor.command", "doctor"),
    Place("status", "status", "status"),
    Place("manifest", "manifest.group"),
    Place("certificate", "certificate"),
    Place("secret", "secret.group"),
    Place("recover", "recover.group"),
    Place("recover-with-signature", "recover.group", "with_signature_app"),
    Place("context", "context.group"),
    Place("trust", "trust"),
    Place("attest", "attest.group"),
    Place("collateral", "attest.collateral"),
    Place("package-info", "attest.package_info", "package_info"),
    Place("store", "store.group"),
    Place("backup", "store.backup", "backup"),
    Place("restore", "store.backup", "restore"),
    Place("serve", "own_parser", "serve"),
    Place("run", "own_parser", "launch"),
    Place("completion", "completion", "completion"),
    Place("version", "version", "version"),
    Place("install", "elsewhere", "install", hidden=True),
    Place("uninstall", "elsewhere", "uninstall", hidden=True),
    Place("precheck", "elsewhere", "precheck", hidden=True),
    Place("check", "elsewhere", "check", hidden=True),
)
"""In the order of the help."""

_OWN_PARSER: Final = {"ignore_unknown_options": True, "allow_extra_args": True}


def app_of(words: Sequence[str]) -> typer.Typer:
    """Return the commands that ``words`` need: the one they name, or else all of them."""
    named = [place for place in COMMANDS if words and place.name == words[0]]
    return _app(named or COMMANDS)


def whole_app() -> typer.Typer:
    """Return all commands."""
    return _app(COMMANDS)


def _app(places: Sequence[Place]) -> typer.Typer:
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

    for place in places:
        found = getattr(import_module(f"keyhouse.cli.{place.module}"), place.attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=place.name, hidden=place.hidden)
        else:
            own = place.module == "own_parser"
            app.command(
                name=place.name,
                hidden=place.hidden,
                add_help_option=not own,
                context_settings=_OWN_PARSER if own or place.module == "elsewhere" else None,
            )(found)
    return app
