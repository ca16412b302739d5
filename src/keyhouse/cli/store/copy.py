"""`keyhouse store copy`: move a state from a state directory to a database, and back."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import printable
from keyhouse.cli.output.progress_bar import long_work
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser import Argument, AsJson
from keyhouse.cli.store.database import PasswordFile, connected, is_url
from keyhouse.cli.store.directories import SealedFor, Stopped, existing, require_stopped, verifier

if TYPE_CHECKING:
    from keyhouse.cli.store.check import StoreReport
    from keyhouse.journal.offline.move_store import MovedIn

Place = Annotated[
    str,
    Argument(metavar="FROM", help="a state directory, or postgresql://USER@HOST/DATABASE"),
]
Other = Annotated[
    str,
    Argument(metavar="TO", help="a database for a directory, or a directory for a database"),
]


def copy(
    source: Place,
    target: Other,
    *,
    password_file: PasswordFile = None,
    platform: SealedFor = "",
    stopped: Stopped = False,
    as_json: AsJson = False,
) -> None:
    """Move a state directory to a database, or back.

    The command compares every record. Stop all coordinators of the state first.

    To a database: prepare it first with keyhouse store init. The store in the directory moves to
    archive/. The file sealed_key stays, so this directory can be the --data-dir of a coordinator
    with --store.

    To a directory: use the --data-dir of a coordinator of this database, because this directory
    contains sealed_key. Afterwards, this coordinator serves alone, without --store. The database
    keeps its records, but serves no coordinator. After a failure, repeat the command.

    Example: keyhouse store copy keyhouse-data postgresql://keyhouse@db.example/keyhouse
    --password-file password
    """
    if is_url(source) == is_url(target):
        raise RefusedError(
            "FROM and TO are two directories or two URLs; expected one directory and one URL",
            hint="run keyhouse store copy DIR URL, or keyhouse store copy URL DIR",
        )
    if is_url(source):
        directory = existing(Path(target))
        require_stopped(directory, stopped=stopped)
        _copy_out(source, directory, password_file, platform, as_json=as_json)
        return
    if platform:
        raise RefusedError.no_effect(
            "--platform", "verify the directory first: keyhouse store verify DIR"
        )
    directory = existing(Path(source))
    require_stopped(directory, stopped=stopped)
    _copy_in(directory, target, password_file, as_json=as_json)


def _copy_in(directory: Path, url: str, password_file: Path | None, *, as_json: bool) -> None:
    async def move() -> "MovedIn":
        async with connected(url, password_file) as database:
            from keyhouse.journal.offline.move_store import move_in

            return await move_in(directory, database)

    with long_work("moving the store", quiet=as_json):
        moved = asyncio.run(move())
    if as_json:
        show_json({"store": moved.store_id.hex(), "archived": moved.archive})
        return
    click.echo(f"moved     {moved.store_id.hex()}")
    click.echo(f"archived  {moved.archive}")
    shown = printable(str(directory))
    click.echo(f"next: keyhouse serve --data-dir {shown} --store URL", err=True)


def _copy_out(
    url: str, directory: Path, password_file: Path | None, platform: str, *, as_json: bool
) -> None:
    reports: list[StoreReport] = []
    verify = verifier(platform, directory, reports)

    async def move() -> bytes:
        async with connected(url, password_file) as database:
            from keyhouse.journal.offline.move_store import move_out

            return await move_out(database, directory, verify)

    with long_work("moving the store", quiet=as_json):
        store_id = asyncio.run(move())
    if as_json:
        show_json({"store": store_id.hex(), "checked": reports[0]})
        return
    click.echo(f"moved     {store_id.hex()}")
    click.echo(f"state     {reports[0].state}")
    shown = printable(str(directory))
    click.echo(f"next: keyhouse serve --data-dir {shown}, without --store", err=True)
