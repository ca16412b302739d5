"""A real PostgreSQL server of a test session, from Debian's packages."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg

from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_connection import create_schema
from support.process.tool import tool

__all__ = ["PASSWORD", "PostgresServer"]

PASSWORD = "canary-of-a-password"  # noqa: S105 - of this test


class PostgresServer:
    """The server, which listens in a directory; it refuses root, so there it is another user's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._as: dict[str, Any] = {}
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._numbers = count()
        password = folder / "password"
        password.write_text(PASSWORD)
        self._run("initdb", "-A", "scram-sha-256", "-U", "keyhouse", f"--pwfile={password}", "-N")
        self.start()

    @classmethod
    @contextmanager
    def running(cls) -> Iterator["PostgresServer"]:
        """Start one in a temporary directory; skip without the program."""
        _program("initdb")
        folder = Path(tempfile.mkdtemp(prefix="pg-"))  # a short path: it has a socket
        try:
            server = cls(folder)
            try:
                yield server
            finally:
                server.kill()
        finally:
            shutil.rmtree(folder)

    def start(self) -> None:
        """Return once it takes connections."""
        options = f"-k {self.folder} -c listen_addresses= -c max_prepared_transactions=0"
        self._run("pg_ctl", "-w", "-s", "-l", str(self.folder / "log"), "-o", options, "start")

    def kill(self) -> None:
        """End it as a crash does: no commit that is under way is finished."""
        self._run("pg_ctl", "-w", "-s", "-m", "immediate", "stop")

    def url(self, database: str = "postgres", *, folder: Path | None = None) -> Secret:
        """Return the URL of a database, through another's socket if ``folder`` says so."""
        where = self.folder if folder is None else folder
        return Secret(f"postgresql://keyhouse:{PASSWORD}@/{database}?host={where}".encode())

    async def database(self, *, empty: bool = False) -> str:
        """Return the name of a new database, with the schema unless it is to be ``empty``."""
        name = f"test{next(self._numbers)}"
        await self.ask(f"CREATE DATABASE {name}")
        if not empty:
            await create_schema(self.url(name))
        return name

    async def ask(self, statement: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Return the rows of ``statement``, run by a connection of its own."""
        connection = await asyncpg.connect(self.url(database).reveal().decode())
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    @contextmanager
    def pooler(self) -> Iterator[Path]:
        """Run PgBouncer in transaction mode; yield the directory of its socket."""
        folder = self.folder / "pooler"
        folder.mkdir()
        os.chown(folder, self.folder.stat().st_uid, -1)
        settings = f"""[databases]
* = host={self.folder}
[pgbouncer]
unix_socket_dir = {folder}
listen_port = 5432
auth_type = plain
auth_file = {folder}/users
pool_mode = transaction
"""
        (folder / "settings").write_text(settings)
        (folder / "users").write_text(f'"keyhouse" "{PASSWORD}"\n')
        process = subprocess.Popen(
            [tool("pgbouncer"), str(folder / "settings")], stderr=subprocess.PIPE, text=True,
            **self._as,
        )  # fmt: skip
        assert process.stderr is not None
        try:
            next(line for line in process.stderr if "process up" in line)
            yield folder
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [_program(program), "-D", str(self.folder / "data"), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=60,
            cwd=self.folder, env={**os.environ, "LC_ALL": "C.UTF-8"}, **self._as,
        )  # fmt: skip


def _program(name: str) -> str:
    """Return the path of a program that Debian keeps outside of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else tool(name)
