"""`keyhouse store verify`: everything in a store is checked, on a copy."""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import printable
from keyhouse.cli.output.bar import long_work
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser import AsJson
from keyhouse.cli.store.database import (
    KeyFile,
    PasswordFile,
    Source,
    complete_url,
    connected,
    is_url,
    refuse_words_of_databases,
)
from keyhouse.cli.store.directories import SealedFor, existing
from keyhouse.cli.store.stopped import Stopped, require_stopped

if TYPE_CHECKING:
    from keyhouse.cli.store.check import FileChecked, StoreChecked


def verify(
    source: Source,
    *,
    platform: SealedFor = "",
    password_file: PasswordFile = None,
    key_file: KeyFile = None,
    stopped: Stopped = False,
    as_json: AsJson = False,
) -> None:
    """Check everything in a store.

    A copy is read: nothing in the store changes.

    The coordinator of a directory has to be stopped. DIR may also be a store under archive/, or the
    URL of a database that keeps a state, whose coordinators may run.

    Example: keyhouse store verify keyhouse-data --platform simulation
    """
    if is_url(source):
        if stopped:
            raise RefusedError("--stopped has no effect here", hint="it goes with a directory")
        with long_work("checking the store", quiet=as_json):
            checked = _of_database(source, password_file, key_file, platform)
    else:
        refuse_words_of_databases(password_file, key_file)
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


def _of_directory(directory: Path, platform: str) -> "StoreChecked":
    from keyhouse.cli.store.check import check_store, sealing_platform
    from keyhouse.journal.offline.log_repair import see_logs
    from keyhouse.journal.offline.private_copy import private_copy

    opener = sealing_platform(platform, directory) if platform else None
    with private_copy(directory) as copy:
        return asyncio.run(check_store(copy, opener, list(see_logs(directory))))


def _of_database(
    url: str, password_file: Path | None, key_file: Path | None, platform: str
) -> "StoreChecked":
    from keyhouse.cli.store.check import check_store, sealing_platform
    from keyhouse.journal.offline.log_repair import see_logs

    if platform and key_file is None:
        raise RefusedError(
            "--platform needs the key that it is to open",
            hint="give --sealed-key, the file in the --data-dir of a coordinator",
        )
    home = key_file and key_file.absolute().parent
    opener = sealing_platform(platform, home) if platform and home else None
    with TemporaryDirectory(prefix="keyhouse-") as name:
        copy = Path(name)
        asyncio.run(_copied(url, password_file, key_file, copy))
        logs = list(see_logs(copy))
        return asyncio.run(check_store(copy, opener, logs, needs_key=key_file is not None))


async def _copied(url: str, password_file: Path | None, key: Path | None, copy: Path) -> None:
    """Fill the directory ``copy`` with the store in a database."""
    complete = complete_url(url, password_file)
    from keyhouse.journal.directory.disk import Disk
    from keyhouse.journal.shared.moving import copy_database

    async with connected(url, password_file) as database:
        await copy_database(complete, database, copy, key, Disk())


def show_checked(checked: "StoreChecked") -> None:
    """Print what was found about a store, for people."""
    for each in checked.files:
        _show_file(each)
    if checked.state:
        click.echo(f"store     {checked.store_id}")
        click.echo(f"state     {checked.state}")
    if checked.manifest:
        click.echo(f"manifest  {checked.manifest}")
    if not checked.decrypted:
        click.echo("not decrypted: only what shows without the key was checked", err=True)


def _show_file(checked: "FileChecked") -> None:
    word = "WRONG" if checked.problem else "ok"
    click.echo(f"{checked.file:<15} {word:<6} {printable(checked.problem or checked.found)}")
    if checked.problem:
        click.echo(f"    hint: {printable(checked.hint)}")
