"""State directories whose coordinator has to be stopped, as arguments of commands."""

import sys
from pathlib import Path
from typing import Annotated

import click

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import printable
from keyhouse.cli.parser import Argument, Option

Directory = Annotated[Path, Argument(metavar="DIR", help="a state directory")]
Stopped = Annotated[
    bool,
    Option(
        "--stopped",
        help="say that the coordinator is stopped, where that cannot be seen (platform gramine)",
    ),
]


def require_stopped(directory: Path, *, stopped: bool) -> None:
    """Ask, where no lock shows it, whether the coordinator of ``directory`` is stopped."""
    from keyhouse.base.errors import KeyhouseError
    from keyhouse.journal import shows_users
    from keyhouse.journal.directory.acquire import UNSEEN_USERS

    try:
        seen = shows_users(directory)
    except KeyhouseError:  # a damaged key is told by what comes next
        seen = True
    if seen or stopped:
        return
    if not sys.stdin.isatty():
        raise RefusedError(f"{directory}: {UNSEEN_USERS}", hint="stop it, then pass --stopped")
    click.echo(f"{printable(str(directory))}: {UNSEEN_USERS}", err=True)
    if not click.confirm("Is its coordinator stopped?", default=False, err=True):
        raise RefusedError("nothing was done", hint="stop the coordinator first")
