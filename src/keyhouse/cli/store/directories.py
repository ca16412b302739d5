"""State directories as commands are given them: which exist, are not in use, and are verified."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import printable
from keyhouse.cli.parser import Argument, Option

if TYPE_CHECKING:
    from keyhouse.cli.store.check import FileChecked, StoreChecked
    from keyhouse.journal.offline.backup import Verify


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


SealedFor = Annotated[
    str,
    Option(
        "--platform",
        metavar="NAME",
        help="platform whose sealing key opens the store: simulation, ...; without it only what"
        " shows without the key is checked",
    ),
]


def existing(directory: Path, hint: str = "name a state directory") -> Path:
    """Return the directory, which must exist, with its whole path."""
    if not directory.is_dir():
        raise RefusedError(f"{directory} is not a directory", hint=hint)
    return directory.absolute()


def verifier(platform: str, directory: Path, found: "list[StoreChecked]") -> "Verify":
    """Return a check of store files that raises ``StoreDamagedError``, or appends to ``found``."""
    from keyhouse.cli.store.check import check_store, sealing_platform
    from keyhouse.journal import StoreDamagedError
    from keyhouse.journal.offline.private_copy import private_copy

    opener = sealing_platform(platform, directory) if platform else None

    async def verify(place: Path) -> None:
        with private_copy(place) as copy:
            checked = await check_store(copy, opener)
        problems = (each for each in checked.files if each.problem)
        wrong = next((each for each in problems if not _is_lost_key(each, place)), None)
        if wrong is not None:
            raise StoreDamagedError(f"{wrong.file}: {wrong.problem}", hint=wrong.hint)
        found.append(checked)

    return verify


def _is_lost_key(checked: "FileChecked", place: Path) -> bool:
    """Return whether only the sealed key is missing: the recovery keys open the rest."""
    from keyhouse.journal.directory.disk import SEALED_KEY

    return checked.file == SEALED_KEY and not os.path.lexists(place / SEALED_KEY)
