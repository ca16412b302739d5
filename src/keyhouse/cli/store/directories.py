"""State directories as arguments: check that they exist, are not in use, and are intact."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import printable
from keyhouse.cli.parser import Argument, Option

if TYPE_CHECKING:
    from keyhouse.cli.store.check import FileReport, StoreReport
    from keyhouse.journal.offline.backup import Verify


Directory = Annotated[Path, Argument(metavar="DIR", help="a state directory")]
Stopped = Annotated[
    bool,
    Option(
        "--stopped",
        help="confirm that the coordinator is stopped; only on the platform gramine, where this"
        " command cannot see the coordinator's lock",
    ),
]


def require_stopped(directory: Path, *, stopped: bool) -> None:
    """Require that no coordinator runs in the state directory ``directory``.

    A coordinator under Gramine holds no lock that this process can see. For a directory of such a
    coordinator, the function asks the user on a terminal. With ``stopped``, the user has confirmed
    the stop by an option, so the function does not ask. Raises ``RefusedError`` without a
    confirmation. For a visible coordinator, a later step checks the lock.
    """
    from keyhouse.base.errors import KeyhouseError
    from keyhouse.journal import shows_users
    from keyhouse.journal.directory.acquire import UNSEEN_USERS

    try:
        is_visible = shows_users(directory)
    except KeyhouseError:  # the next step reports a damaged key
        is_visible = True
    if is_visible or stopped:
        return
    if not sys.stdin.isatty():
        raise RefusedError(
            f"{directory}: {UNSEEN_USERS}", hint="stop the coordinator, then pass --stopped"
        )
    click.echo(f"{printable(str(directory))}: {UNSEEN_USERS}", err=True)
    if not click.confirm("Is the coordinator stopped?", default=False, err=True):
        raise RefusedError(
            "the stop of the coordinator is not confirmed: nothing was done",
            hint="stop the coordinator, then repeat the command",
        )


SealedFor = Annotated[
    str,
    Option(
        "--platform",
        metavar="NAME",
        help="decrypt the store with the sealing key of this platform, for example simulation."
        " Without this option, the command makes only the checks without a key",
    ),
]


def existing(directory: Path, hint: str = "pass a state directory") -> Path:
    """Return the absolute path of ``directory``.

    Raises ``RefusedError`` with ``hint``, the next step for the user, if it is not a directory.
    """
    if not directory.is_dir():
        raise RefusedError(f"{directory} is not a directory", hint=hint)
    return directory.absolute()


def existing_store(directory: Path, hint: str) -> Path:
    """Return the absolute path of ``directory``, a directory with files of a store.

    Otherwise, raises ``RefusedError`` with ``hint``. This check precedes the check of file modes.
    So, after a mistyped path such as ``/tmp``, no hint advises the user to change its mode. An
    unreadable directory passes, and a later step reports the error.
    """
    from keyhouse.journal.directory.disk import INDEX, JOURNAL, NEXT_INDEX, SEALED_KEY, TOMBSTONE

    directory = existing(directory, hint)
    names = (INDEX, JOURNAL, NEXT_INDEX, SEALED_KEY, TOMBSTONE)
    if os.access(directory, os.X_OK) and not any(
        os.path.lexists(directory / name) for name in names
    ):
        raise RefusedError(f"there is no store in {directory}", hint=hint)
    return directory


def verifier(platform: str, directory: Path, reports: "list[StoreReport]") -> "Verify":
    """Return a function that checks the store in a directory, for a copy or a backup.

    The function appends its result to ``reports``, or raises ``StoreDamagedError``. It decrypts the
    store with the sealing key of ``platform``, a name; "" means no decryption. ``directory`` is the
    state directory of the platform.
    """
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
        reports.append(checked)

    return verify


def _is_lost_key(checked: "FileReport", place: Path) -> bool:
    """Return whether ``checked`` is about the sealed key, and ``place`` has no sealed key.

    ``place`` is a directory with a store. Recovery keys can replace a missing sealed key.
    """
    from keyhouse.journal.directory.disk import SEALED_KEY

    return checked.file == SEALED_KEY and not os.path.lexists(place / SEALED_KEY)
