"""`keyhouse store copy`: from a state directory to a database, and back."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import printable
from keyhouse.cli.output.bar import long_work
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser import Argument, AsJson
from keyhouse.cli.store.database import PasswordFile, connected, is_url
from keyhouse.cli.store.directories import SealedFor, Stopped, existing, require_stopped, verifier

if TYPE_CHECKING:
    from keyhouse.cli.store.check import StoreChecked
    from keyhouse.journal.offline.moving import MovedIn

Place = Annotated[
    str,
    Argument(metavar="FROM", help="a state directory, or postgresql://USER@HOST/DATABASE"),
]
Other = Annotated[str, Argument(metavar="TO", help="the other of the two")]


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

    Every record is compared. All coordinators of the state have to be stopped.

    To a database: it has no store yet (keyhouse store init). In the directory the store moves to
    archive/ and sealed_key stays, so that it can be the --data-dir beside --store.

    To a directory: it is the --data-dir of a coordinator that served the database, so sealed_key is
    in it. Its coordinator serves alone then, without --store. The database keeps its records but is
    not served any more. If this fails halfway, repeat it.

    Example: keyhouse store copy keyhouse-data postgresql://keyhouse@db.example/keyhouse
    --password-file password
    """
    if is_url(source) == is_url(target):
        raise RefusedError(
            "one of the two has to be a directory and the other the URL of a database",
            hint="keyhouse store copy DIR URL, or keyhouse store copy URL DIR",
        )
    if is_url(source):
        directory = existing(Path(target))
        require_stopped(directory, stopped=stopped)
        _copy_out(source, directory, password_file, platform, as_json=as_json)
        return
    if platform:
        raise RefusedError.no_effect("--platform", "verify the directory before: store verify")
    directory = existing(Path(source))
    require_stopped(directory, stopped=stopped)
    _copy_in(directory, target, password_file, as_json=as_json)


def _copy_in(directory: Path, url: str, password_file: Path | None, *, as_json: bool) -> None:
    async def move() -> "MovedIn":
        async with connected(url, password_file) as database:
            from keyhouse.journal.offline.moving import move_in

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
    found: list[StoreChecked] = []
    verify = verifier(platform, directory, found)

    async def move() -> bytes:
        async with connected(url, password_file) as database:
            from keyhouse.journal.offline.moving import move_out

            return await move_out(database, directory, verify)

    with long_work("moving the store", quiet=as_json):
        store_id = asyncio.run(move())
    if as_json:
        show_json({"store": store_id.hex(), "checked": found[0]})
        return
    click.echo(f"moved     {store_id.hex()}")
    click.echo(f"state     {found[0].state}")
    shown = printable(str(directory))
    click.echo(f"next: keyhouse serve --data-dir {shown}, without --store", err=True)
