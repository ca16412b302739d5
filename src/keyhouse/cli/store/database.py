"""`keyhouse store init`: prepare a database for coordinators that share it."""

import asyncio
from pathlib import Path
from typing import Annotated

import click

from keyhouse.base.errors import RefusedError
from keyhouse.cli.parser import Argument, Option

Url = Annotated[str, Argument(metavar="URL", help="the database: postgresql://USER@HOST/DATABASE")]
PasswordFile = Annotated[
    Path | None,
    Option("--password-file", metavar="FILE", help="file with the password in its first line"),
]


def init(url: Url, *, password_file: PasswordFile = None) -> None:
    """Prepare a PostgreSQL database for coordinators that share it.

    It creates the schema keyhouse, which must not exist yet. The user of the URL owns it then, and
    is the one that the coordinators use.

    Example: keyhouse store init postgresql://keyhouse@db.example/keyhouse --password-file password
    """
    from keyhouse.journal.shared.url import has_password, store_url

    if has_password(url):
        raise RefusedError(
            "the URL has a password, which every user of this machine could see",
            hint="use --password-file",
        )
    try:
        from keyhouse.journal.store.postgres_connection import create_schema
    except ModuleNotFoundError as missing:
        if missing.name != "asyncpg":
            raise
        raise RefusedError(
            "databases need a library that is not installed", hint="install keyhouse[postgres]"
        ) from None
    asyncio.run(create_schema(store_url(url, password_file)))
    click.echo("created the schema keyhouse")
    click.echo("next: keyhouse serve --store URL --store-password-file FILE", err=True)
