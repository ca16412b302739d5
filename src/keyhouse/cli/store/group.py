"""`keyhouse store`, `backup` and `restore`: check, list, back up and restore state directories."""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import click

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import printable
from keyhouse.cli.output.progress_bar import long_work
from keyhouse.cli.output.show import show_json, show_table
from keyhouse.cli.parser import Argument, AsJson, CommandGroup, command
from keyhouse.cli.store import database as databases
from keyhouse.cli.store.copy import copy
from keyhouse.cli.store.directories import (
    Directory,
    SealedFor,
    Stopped,
    existing,
    existing_store,
    require_stopped,
    verifier,
)

if TYPE_CHECKING:
    from keyhouse.cli.store.check import FileReport, StoreReport
    from keyhouse.journal.offline.archive import StoreSeen
    from keyhouse.journal.offline.backup import Verify


def verify(
    source: databases.Source,
    *,
    platform: SealedFor = "",
    password_file: databases.PasswordFile = None,
    key_file: databases.KeyFile = None,
    stopped: Stopped = False,
    as_json: AsJson = False,
) -> None:
    """Check all files of a store.

    The command reads a copy, so it changes nothing in the store. It also checks the files of the
    transparency log. With --platform, it decrypts every record, and checks that the quotes of the
    root's line are present.

    Stop the coordinator of a directory first. DIR may also be a store in archive/, or the URL of a
    database with a state. The coordinators of a database may run.

    Example: keyhouse store verify keyhouse-data --platform simulation
    """
    if databases.is_url(source):
        if stopped:
            raise RefusedError.no_effect("--stopped", "use it with a directory")
        with long_work("checking the store", quiet=as_json):
            checked = _of_database(source, password_file, key_file, platform)
    else:
        databases.refuse_words_of_databases(password_file, key_file)
        directory = existing(Path(source))
        require_stopped(directory, stopped=stopped)
        with long_work("checking the store", quiet=as_json):
            checked = _of_directory(directory, platform)
    if as_json:
        show_json(checked)
    else:
        show_checked(checked)
    if not checked.ok:
        sys.exit(1)


def _of_directory(directory: Path, platform: str) -> "StoreReport":
    from keyhouse.cli.store.check import check_store, sealing_platform
    from keyhouse.journal.offline.log_repair import see_logs
    from keyhouse.journal.offline.private_copy import private_copy

    opener = sealing_platform(platform, directory) if platform else None
    with private_copy(directory) as copy:
        return asyncio.run(check_store(copy, opener, list(see_logs(directory))))


def _of_database(
    url: str, password_file: Path | None, key_file: Path | None, platform: str
) -> "StoreReport":
    from keyhouse.cli.store.check import check_store, sealing_platform
    from keyhouse.journal.offline.log_repair import see_logs

    if platform and key_file is None:
        raise RefusedError(
            "--platform decrypts a sealed key, but --sealed-key is missing",
            hint="pass --sealed-key with the file sealed_key in the --data-dir of a coordinator",
        )
    folder = key_file and key_file.absolute().parent
    opener = sealing_platform(platform, folder) if platform and folder else None
    with TemporaryDirectory(prefix="keyhouse-") as name:
        copy = Path(name)
        asyncio.run(_copy_store(url, password_file, key_file, copy))
        logs = list(see_logs(copy))
        return asyncio.run(check_store(copy, opener, logs, needs_key=key_file is not None))


async def _copy_store(url: str, password_file: Path | None, key: Path | None, copy: Path) -> None:
    """Copy the store of the database at ``url`` into the directory ``copy``.

    ``password_file`` has the database's password, and ``key`` is the file of a sealed key, which is
    copied, too. None means that there is no such file.
    """
    async with databases.connected(url, password_file) as database:
        from keyhouse.journal.directory.disk import Disk
        from keyhouse.journal.offline.move_store import copy_database

        await copy_database(database, copy, key, Disk())


def show_checked(checked: "StoreReport") -> None:
    """Print ``checked``, the result of the check of a store, for people."""
    for each in checked.files:
        _show_file(each)
    if checked.state:
        click.echo(f"store     {checked.store_id}")
        click.echo(f"state     {checked.state}")
    if checked.manifest:
        click.echo(f"manifest  {checked.manifest}")
    if not checked.decrypted:
        click.echo("not decrypted: the command made only the checks that need no key", err=True)


def _show_file(checked: "FileReport") -> None:
    word = "WRONG" if checked.problem else "ok"
    click.echo(f"{checked.file:<15} {word:<6} {printable(checked.problem or checked.found)}")
    if checked.problem:
        click.echo(f"    hint: {printable(checked.hint)}")


app = CommandGroup()
app.command("init")(databases.init)
app.command("verify")(verify)
app.command("copy")(copy)


@app.command("list")
def list_(directory: Directory, *, as_json: AsJson = False) -> None:
    """List the present store and the archived stores.

    Archived stores are in archive/. The command changes nothing.

    Example: keyhouse store list keyhouse-data
    """
    from keyhouse.journal import see_tombstone
    from keyhouse.journal.offline.archive import list_stores

    directory = existing(directory)
    stores, ended = list_stores(directory), see_tombstone(directory)
    if as_json:
        show_json({"stores": stores, "ended": str(ended or "")})
        return
    _show_stores(stores)
    if ended is not None:
        click.echo(printable(str(ended)), err=True)


@app.command("restore")
def restore(
    directory: Directory,
    name: Annotated[
        str, Argument(metavar="NAME", help="name of the archived store, from keyhouse store list")
    ],
    *,
    stopped: Stopped = False,
    as_json: AsJson = False,
) -> None:
    """Restore an archived store.

    The present store moves to archive/. The command deletes nothing.

    Stop the coordinator first. The restored state is older, so clients that remember a later state
    of this deployment refuse it.

    Example: keyhouse store restore keyhouse-data 20261121T120000Z-0123abcd
    """
    from keyhouse.journal.offline.archive import restore as put_back

    directory = existing(directory)
    require_stopped(directory, stopped=stopped)
    aside = asyncio.run(put_back(directory, name))
    if as_json:
        show_json({"restored": name, "archived": aside})
        return
    click.echo(f"restored  {name}")
    if aside:
        click.echo(f"archived  {aside}")
    click.echo(f"next: keyhouse store verify {printable(str(directory))}", err=True)


@command
def backup(
    source: databases.Source,
    target: Annotated[Path, Argument(metavar="BACKUP", help="a new directory for the backup")],
    *,
    platform: SealedFor = "",
    password_file: databases.PasswordFile = None,
    key_file: databases.KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a backup of a state directory.

    DIR may also be the URL of a database with a state. The coordinators may run and write during
    the backup.

    The command writes SHA256SUMS into BACKUP after all checks. A backup without this file is
    incomplete. The backup excludes the keys of the platform and the stores in archive/.

    Example: keyhouse backup keyhouse-data backup-monday
    """
    reports: list[StoreReport] = []
    if databases.is_url(source):
        check = verifier(platform, (key_file or target).absolute().parent, reports)
        work = _backup_of_database(source, password_file, target.absolute(), key_file, check)
    else:
        databases.refuse_words_of_databases(password_file, key_file)
        from keyhouse.journal.offline.backup import make_backup

        directory = existing_store(
            Path(source), "pass the state directory of a coordinator that has a manifest"
        )
        check = verifier(platform, directory, reports)
        work = make_backup(directory, target.absolute(), check)
    with long_work("backing up", quiet=as_json):
        asyncio.run(work)
    _show_checked_at("backup", target, reports[0], as_json=as_json)
    if not as_json:
        shown = printable(str(target))
        click.echo(f"to restore the backup: keyhouse restore {shown} DIR", err=True)


@command
def restore_backup(
    source: Annotated[Path, Argument(metavar="BACKUP", help="directory of a backup")],
    directory: Annotated[Path, Argument(metavar="DIR", help="a state directory without a store")],
    *,
    platform: SealedFor = "",
    as_json: AsJson = False,
) -> None:
    """Put a backup into a state directory.

    The directory must not have a store. The command checks the backup first.

    The restored state is older, so clients that remember a later state refuse it.

    Example: keyhouse restore backup-monday keyhouse-data
    """
    from keyhouse.journal.offline.backup import restore_backup as put_back

    directory, reports = directory.absolute(), list["StoreReport"]()
    check = verifier(platform, directory, reports)
    source = existing_store(source, "pass a directory that keyhouse backup made")
    with long_work("restoring", quiet=as_json):
        asyncio.run(put_back(source, directory, check))
    _show_checked_at("restored", directory, reports[0], as_json=as_json)
    if not as_json:
        click.echo(
            f"next: start the coordinator in {printable(str(directory))}; commands with the memory"
            f" of a state later than {reports[0].state} refuse it until keyhouse trust forget HOST",
            err=True,
        )


async def _backup_of_database(
    url: str, password_file: Path | None, target: Path, key_file: Path | None, check: "Verify"
) -> None:
    async with databases.connected(url, password_file) as database:
        from keyhouse.journal.offline.move_store import back_up_database

        await back_up_database(database, target, key_file, check)


def _show_stores(stores: "list[StoreSeen]") -> None:
    if not stores:
        click.echo("there is no store", err=True)
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


def _show_checked_at(word: str, path: Path, checked: "StoreReport", *, as_json: bool) -> None:
    if as_json:
        show_json({word: str(path), "checked": checked})
        return
    click.echo(f"{word:<15} {printable(str(path))}")
    show_checked(checked)
