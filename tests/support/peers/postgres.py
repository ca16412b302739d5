"""A real PostgreSQL server for a test session, from Debian's packages."""

import asyncio
import base64
import hashlib
import hmac
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import asyncpg

from keyhouse.base.secret import Secret
from keyhouse.journal.offline.postgres_schema import create_schema
from support.peers.peer import Certified
from support.process.server import children, signal_all
from support.process.tool import tool

__all__ = ["PASSWORD", "PostgresServer"]

PASSWORD = "canary-of-a-password"  # noqa: S105 - only for tests
_TEMPLATE: Final = "with_schema"
"""A database for copies: the creation of the schema takes as long as all other steps."""


class PostgresServer:
    """The server, with its socket in ``folder``. Under root it runs as the user postgres."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The arguments ``user`` and ``group`` of subprocess would force a full fork. A forked child
        # of a process with gRPC threads sometimes aborts before it runs the program.
        self._as: list[str] = []
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            self._as = [tool("setpriv"), *ids]
        self._numbers = count()
        self.is_running = False
        self.address = f"127.{'.'.join(str(1 + number % 254) for number in os.urandom(3))}"

    @classmethod
    @contextmanager
    def running(cls) -> Iterator["PostgresServer"]:
        """Start a server in a temporary directory; skip the test if PostgreSQL is missing."""
        _program("initdb")
        with cls._in_new_folder() as server:
            password = server.folder / "password"
            password.write_text(_verifier())
            how = ("-A", "scram-sha-256", "-U", "keyhouse", f"--pwfile={password}", "-N")
            server._run("initdb", *how)
            rules = server.folder / "data" / "pg_hba.conf"
            rules.write_text(
                "hostssl certified all 127.0.0.0/8 scram-sha-256 clientcert=verify-ca\n"
                "local replication keyhouse scram-sha-256\n" + rules.read_text()
            )
            server.start()
            _complete(server._create_template())
            yield server

    @contextmanager
    def with_standby(self, through: int = 0) -> Iterator["PostgresServer"]:
        """Start a standby of this server. From then on, every commit waits for the standby.

        ``through``: a port of 127.0.0.1 that leads to this server; 0: a direct connection.
        """
        with self._in_new_folder() as standby:
            source = self.url(extra="&application_name=standby").reveal().decode()
            if through:
                host = f"127.0.0.1:{through}/?application_name=standby"
                source = f"postgresql://keyhouse:{PASSWORD}@{host}"
            standby._run("pg_basebackup", "-d", source, "-R", "-c", "fast", "-N", "-X", "stream")
            standby.start()
            _complete(self.awaited("standby"))
            yield standby

    @classmethod
    @contextmanager
    def _in_new_folder(cls) -> Iterator["PostgresServer"]:
        folder = Path(tempfile.mkdtemp(prefix="pg-"))  # the path of a socket must be short
        try:
            server = cls(folder)
            try:
                yield server
            finally:
                if server.is_running:
                    server.kill()
        finally:
            shutil.rmtree(folder)

    async def awaited(self, standby: str) -> None:
        """Let every commit wait for ``standby``; an empty name: for no standby."""
        await self.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
        await self.ask("SELECT pg_reload_conf()")
        # Commits use the setting as the checkpointer has loaded it.
        while (await self.ask("SHOW synchronous_standby_names")) != [(standby,)]:
            pass

    def promote(self) -> None:
        """Make this standby the primary; return when it accepts writes."""
        self._control("promote")

    def start(self) -> None:
        """Start the server; return when it accepts connections."""
        # After a crash, the default method syncs all files one by one. With hundreds of files in
        # each test's database, this takes minutes on a busy disk.
        settings = [
            f"listen_addresses={self.address}", "max_prepared_transactions=0",
            "recovery_init_sync_method=syncfs", "autovacuum=off",
            # A commit waits for the standby; the standby polls its primary at this interval (ms).
            "wal_retrieve_retry_interval=200",
        ]  # fmt: skip
        options = " ".join([f"-k {self.folder}", *(f"-c {setting}" for setting in settings)])
        log = self.folder / "log"
        try:
            self._control("-l", str(log), "-o", options, "start")
        except subprocess.CalledProcessError as error:
            if log.exists():
                error.add_note(log.read_text(errors="replace")[-2000:])
            raise
        self.is_running = True

    def kill(self) -> None:
        """Stop the server as a crash does, without completing any commit."""
        self.is_running = False
        self._control("-m", "immediate", "stop")

    def crash(self) -> None:
        """Kill all processes of the server at once; return when they have ended."""
        processes = self._stop_all()
        self.is_running = False
        signal_all(signal.SIGKILL, *processes)
        # The next start needs the shared memory, which the last process releases.
        while any(map(_runs, processes)):
            time.sleep(0.01)  # not children of this process: there is no event
        # Until its exit code is collected, the parent's id seems to belong to a running process.
        (self.folder / "data" / "postmaster.pid").unlink()
        for lock in self.folder.glob(".s.PGSQL.*.lock"):
            lock.unlink()

    def stop(self) -> None:
        """Stop the server in order: it closes its connections and writes a checkpoint."""
        self.is_running = False
        self._control("-m", "fast", "stop")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all processes of the server with SIGSTOP until the context ends."""
        stopped = self._stop_all()
        try:
            yield
        finally:
            signal_all(signal.SIGCONT, *stopped)

    def _stop_all(self) -> list[int]:
        """Send SIGSTOP to all processes; return their ids."""
        parent = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        signal_all(signal.SIGSTOP, parent)  # so the parent starts no more processes
        processes = [*children(parent), parent]
        signal_all(signal.SIGSTOP, *processes)
        return processes

    @contextmanager
    def away(self) -> Iterator[None]:
        """Stop the server as a crash does; restart it when the context ends."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    def url(self, database: str = "postgres", *folders: Path, extra: str = "") -> Secret:
        """Return the URL of a database, through the sockets in ``folders`` if any are given."""
        where = ",".join(map(str, folders or [self.folder]))
        url = f"postgresql://keyhouse:{PASSWORD}@/{database}?host={where}{extra}"
        return Secret(url.encode())

    @asynccontextmanager
    async def with_tls(self, certificate: Certified, clients: Certified) -> AsyncIterator[None]:
        """Offer TLS until the context ends.

        ``clients``: the CA of the client certificates for the database ``certified``.
        """
        data = self.folder / "data"
        for name, raw in (
            ("server.crt", certificate.pem),
            ("server.key", certificate.key_pem),
            ("clients.crt", clients.pem),
        ):
            (data / name).write_bytes(raw)
            (data / name).chmod(0o600)
            os.chown(data / name, data.stat().st_uid, data.stat().st_gid)
        await self.ask("ALTER SYSTEM SET ssl_ca_file = 'clients.crt'")
        await self._set_tls("on")
        try:
            yield
        finally:
            await self._set_tls("off")

    async def _set_tls(self, value: str) -> None:
        await self.ask(f"ALTER SYSTEM SET ssl = {value}")
        await self.ask("SELECT pg_reload_conf()")
        while await self.ask("SHOW ssl") != [(value,)]:
            pass

    async def _create_template(self) -> None:
        await self.ask(f"CREATE DATABASE {_TEMPLATE}")
        await create_schema(self.url(_TEMPLATE))

    async def database(self, *, empty: bool = False) -> str:
        """Return the name of a new database, without the schema if ``empty``."""
        name = f"test{next(self._numbers)}"
        await self.ask(f"CREATE DATABASE {name} TEMPLATE {'template1' if empty else _TEMPLATE}")
        return name

    async def ask(self, statement: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run ``statement`` on a new connection; return its rows."""
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
            [*self._as, tool("pgbouncer"), str(folder / "settings")],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr is not None
        try:
            next(line for line in process.stderr if "process up" in line)
            yield folder
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-w", "-t", "100", "-s", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [*self._as, _program(program), "-D", str(self.folder / "data"), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=120,
            cwd=self.folder, env={**os.environ, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip


def _runs(process: int) -> bool:
    """Return whether a process runs. A process with an uncollected exit code does not run."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except OSError:
        return False
    return state.split()[0] != "Z"


def _program(name: str) -> str:
    """Return the path of a program that Debian installs outside of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else tool(name)


def _verifier() -> str:
    """Return the server's stored form of the password (RFC 5803), with one round of hashing.

    With the usual 4096 rounds, each connection takes three times as long.
    """
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, 1)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    parts = (salt, stored, hmac.digest(salted, b"Server Key", "sha256"))
    return "SCRAM-SHA-256$1:{}${}:{}".format(*(base64.b64encode(part).decode() for part in parts))


def _complete(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` in a new loop, in a thread: the caller's thread may already run a loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


class Database:
    """A database with arguments for commands: the password is in a file."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        name = asyncio.run(server.database())
        self.name = name
        self.secret = server.url(name)
        self.url = self.secret.reveal().decode().replace(f":{PASSWORD}", "")
        password = folder / f"password-{name}"
        password.write_text(PASSWORD)
        self.password = ("--password-file", str(password))
        self.serving = ("--store", self.url, "--store-password-file", str(password))
