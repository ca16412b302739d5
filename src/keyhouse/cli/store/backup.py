"""`keyhouse backup` and `keyhouse restore`: a store at one moment, kept elsewhere and put back."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keyhouse.base.errors import Refused
from keyhouse.base.printable import printable
from keyhouse.cli.output.talk import AsJson, show_json, speaks

if TYPE_CHECKING:
    from keyhouse.cli.store.check import FileChecked, StoreChecked
    from keyhouse.journal.offline.backup import Verify

__all__ = ["backup", "restore"]

Opener = Annotated[
    str,
    typer.Option(
        "--platform",
        help="platform whose sealing key opens the store: simulation, ...; without it only what"
        " shows without the key is checked",
    ),
]


@speaks
def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="a state directory")],
    target: Annotated[Path, typer.Argument(metavar="BACKUP", help="a directory to be made")],
    *,
    platform: Opener = "",
    as_json: AsJson = False,
) -> None:
    """Make a backup of a state directory, also while its coordinator runs and writes.

    BACKUP appears when everything in it is checked, or not at all. The keys of the platform, and
    stores in archive/, are not in it.

    Example: keyhouse backup keyhouse-data backup-monday
    """
    from keyhouse.journal import make_backup

    directory = _existing(directory)
    found: list[StoreChecked] = []
    verify = _verifier(platform, directory, found)
    asyncio.run(make_backup(directory, target.absolute(), verify))
    _tell("backup", target, found[0], as_json=as_json)
    if not as_json:
        shown = printable(str(target))
        typer.echo(f"next, when it is needed: keyhouse restore {shown} DIR", err=True)


@speaks
def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="a backup")],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="a state directory without a store")
    ],
    *,
    platform: Opener = "",
    as_json: AsJson = False,
) -> None:
    """Put a backup into a state directory that holds no store; it is checked before.

    Clients that remember a later state will refuse it: it is rolled back.

    Example: keyhouse restore backup-monday keyhouse-data
    """
    from keyhouse.journal import restore_backup

    directory, found = directory.absolute(), list["StoreChecked"]()
    verify = _verifier(platform, directory, found)
    asyncio.run(restore_backup(_existing(source), directory, verify))
    _tell("restored", directory, found[0], as_json=as_json)
    if not as_json:
        typer.echo(
            f"next: start the coordinator in {printable(str(directory))}; commands that remember a"
            f" state later than {found[0].state} refuse it until keyhouse trust forget HOST",
            err=True,
        )


def _verifier(platform: str, directory: Path, found: "list[StoreChecked]") -> "Verify":
    """Return what checks the files of a store and leaves in ``found`` what it saw."""
    from keyhouse.cli.store.check import check_store
    from keyhouse.cli.store.sealing_platform import sealing_platform
    from keyhouse.journal import StoreDamaged, private_copy

    opener = sealing_platform(platform, directory) if platform else None

    async def verify(place: Path) -> None:
        with private_copy(place) as copy:
            checked = await check_store(copy, opener)
        problems = (each for each in checked.files if each.problem)
        wrong = next((each for each in problems if not _is_lost_key(each, place)), None)
        if wrong is not None:
            raise StoreDamaged(f"{wrong.file}: {wrong.problem}", hint=wrong.hint)
        found.append(checked)

    return verify


def _is_lost_key(checked: "FileChecked", place: Path) -> bool:
    """Tell whether only the sealed key is gone: the recovery keys open what is left."""
    from keyhouse.journal.directory.layout import SEALED_KEY

    return checked.file == SEALED_KEY and not os.path.lexists(place / SEALED_KEY)


def _tell(word: str, path: Path, checked: "StoreChecked", *, as_json: bool) -> None:
    if as_json:
        show_json({word: str(path), "checked": checked})
        return
    from keyhouse.cli.store.group import show_checked

    typer.echo(f"{word:<15} {printable(str(path))}")
    show_checked(checked)


def _existing(directory: Path) -> Path:
    if not directory.is_dir():
        raise Refused(f"{directory} is no directory", hint="name one that is there")
    return directory.absolute()
