"""`keyhouse store init`, and databases as arguments of other commands."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from keyhouse.base.errors import RefusedError
from keyhouse.base.secret import Secret
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser import Argument, AsJson, Option
from keyhouse.journal.shared.url import has_password, store_url

if TYPE_CHECKING:
    from keyhouse.journal.store.postgres_database import PostgresDatabase

Url = Annotated[str, Argument(metavar="URL", help="the database: postgresql://USER@HOST/DATABASE")]
PasswordFile = Annotated[
    Path | None,
    Option("--password-file", metavar="FILE", help="file with the password in its first line"),
]
KeyFile = Annotated[
    Path | None,
    Option(
        "--sealed-key",
        metavar="FILE",
        help="with a URL: the file sealed_key in the --data-dir of a coordinator; without this"
        " option, only the recovery keys decrypt the records",
    ),
]


Source = Annotated[
    str,
    Argument(metavar="DIR", help="a state directory, or postgresql://USER@HOST/DATABASE"),
]


def refuse_words_of_databases(password_file: Path | None, key_file: Path | None) -> None:
    """Raise ``RefusedError`` for an option that needs the URL of a database.

    ``password_file`` and ``key_file`` are the values of ``--password-file`` and ``--sealed-key``.
    """
    if password_file or key_file:
        flag = "--password-file" if password_file else "--sealed-key"
        raise RefusedError.no_effect(flag, "use it with the URL of a database")


def is_url(text: str) -> bool:
    """Return whether ``text`` is the URL of a database, not a directory."""
    return "://" in text


@asynccontextmanager
async def connected(
    url: str, password_file: Path | None, standbys: int = 0
) -> "AsyncIterator[PostgresDatabase]":
    """Yield the database at ``url``; close the connections after the block.

    Parameters as for ``complete_url``. The function imports the modules that need the database
    library. Raises ``KeyhouseError``, also for a missing library.
    """
    complete = complete_url(url, password_file, standbys)
    from keyhouse.journal.store.postgres_database import PostgresDatabase

    database = PostgresDatabase(complete)
    try:
        yield database
    finally:
        await database.close()


def complete_url(url: str, password_file: Path | None, standbys: int = 0) -> Secret:
    """Return the database's ``url`` with the password in ``password_file``; None: no password.

    The result also has ``standbys``, the number of standbys that must store each change. Raises
    ``RefusedError`` if ``url`` has a password, if the library for databases is missing, or if a
    value is unusable.
    """
    if has_password(url):
        raise RefusedError(
            "the URL has a password, which every user of this machine can see",
            hint="write the password into a file, and pass --password-file",
        )
    if find_spec("asyncpg") is None:
        raise RefusedError(
            "databases need the library asyncpg, which is not installed",
            hint="install the extra postgres; in a clone of Keyhouse: pip install '.[postgres]'",
        )
    return store_url(url, password_file, standbys)


def init(url: Url, *, password_file: PasswordFile = None, as_json: AsJson = False) -> None:
    """Prepare a PostgreSQL database for several coordinators.

    The command creates the schema keyhouse, which must not exist yet. The user of the URL becomes
    the owner of the schema. The coordinators must use the same user.

    Example: keyhouse store init postgresql://keyhouse@db.example/keyhouse --password-file password
    """
    complete = complete_url(url, password_file)
    from keyhouse.journal.offline.postgres_schema import create_schema

    asyncio.run(create_schema(complete))
    if as_json:
        show_json({"schema": "keyhouse"})
        return
    click.echo("created the schema keyhouse")
    click.echo("next: keyhouse serve --store URL --store-password-file FILE", err=True)
