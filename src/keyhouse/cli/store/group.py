"""`keyhouse store`: look at state directories, and put archived stores back."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keyhouse.base.errors import Refused
from keyhouse.base.printable import printable
from keyhouse.cli.output.table import show_table
from keyhouse.cli.output.talk import AsJson, show_json, speaks

if TYPE_CHECKING:
    from keyhouse.cli.store.check import FileChecked, StoreChecked
    from keyhouse.journal import StoreSeen

__all__ = ["app", "show_checked"]

app = typer.Typer(no_args_is_help=True, help="Check, list and restore stores of state directories.")

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="a state directory")]


@app.callback()
def group() -> None:
    """Check, list and restore stores of state directories."""


@app.command(name="verify")
@speaks
def verify(
    directory: Directory,
    *,
    platform: Annotated[
        str,
        typer.Option(
            help="platform whose sealing key opens the store: simulation, ...;"
            " without it only what shows without the key is checked"
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Check everything in a store, of which a copy is read: nothing in it changes.

    Its coordinator has to be stopped. DIR may also be a store under archive/.

    Example: keyhouse store verify keyhouse-data --platform simulation
    """
    from keyhouse.cli.store.check import check_store
    from keyhouse.cli.store.sealing_platform import sealing_platform
    from keyhouse.journal import private_copy

    directory = _existing(directory)
    opener = sealing_platform(platform, directory) if platform else None
    with private_copy(directory) as copy:
        checked = asyncio.run(check_store(copy, opener))
    if as_json:
        show_json(checked)
    else:
        show_checked(checked)
    if not checked.ok:
        sys.exit(1)


@app.command(name="list")
@speaks
def list_(directory: Directory, *, as_json: AsJson = False) -> None:
    """List the present store and those that were moved to archive/. Nothing changes.

    Example: keyhouse store list keyhouse-data
    """
    from keyhouse.journal import list_stores, see_tombstone

    directory = _existing(directory)
    stores, ended = list_stores(directory), see_tombstone(directory)
    if as_json:
        show_json({"stores": stores, "ended": str(ended or "")})
        return
    _show_stores(stores)
    if ended is not None:
        typer.echo(printable(str(ended)), err=True)


@app.command(name="restore")
@speaks
def restore(
    directory: Directory,
    name: Annotated[str, typer.Argument(help="name of the archived store, as list shows it")],
    *,
    as_json: AsJson = False,
) -> None:
    """Put an archived store back in place; the present one moves to archive/. Nothing is deleted.

    The coordinator has to be stopped. Clients that remember a later state of the restored
    deployment will refuse it: it is rolled back.

    Example: keyhouse store restore keyhouse-data 20261121T120000Z-0123abcd
    """
    from keyhouse.journal import restore as put_back

    aside = asyncio.run(put_back(_existing(directory), name))
    if as_json:
        show_json({"restored": name, "archived": aside})
        return
    typer.echo(f"restored  {name}")
    if aside:
        typer.echo(f"archived  {aside}")
    typer.echo(f"next: keyhouse store verify {printable(str(directory))}", err=True)


def _existing(directory: Path) -> Path:
    if not directory.is_dir():
        raise Refused(f"{directory} is no directory", hint="name a state directory")
    return directory.absolute()


def show_checked(checked: "StoreChecked") -> None:
    """Print what was found about a store, for people."""
    for each in checked.files:
        _show_file(each)
    if checked.state:
        typer.echo(f"store     {checked.store_id}")
        typer.echo(f"state     {checked.state}")
    if checked.manifest:
        typer.echo(f"manifest  {checked.manifest}")
    if not checked.decrypted:
        typer.echo("not decrypted: only what shows without the key was checked", err=True)


def _show_file(checked: "FileChecked") -> None:
    word = "WRONG" if checked.problem else "ok"
    typer.echo(f"{checked.file:<15} {word:<6} {printable(checked.problem or checked.found)}")
    if checked.problem:
        typer.echo(f"    hint: {printable(checked.hint)}")


def _show_stores(stores: "list[StoreSeen]") -> None:
    if not stores:
        typer.echo("there is no store", err=True)
        return
    rows = [
        (
            store.name or "(present)",
            store.store_id or "?",
            str(store.epoch or "?"),
            f"{store.size:,}",
            f"{store.platform_kind} {store.policy}".strip() or "?",
            store.problem,
        )
        for store in stores
    ]
    show_table(("STORE", "ID", "EPOCH", "BYTES", "SEALED FOR", ""), rows)
