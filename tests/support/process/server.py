"""A real coordinator process for tests, and a plain HTTPS client."""

import atexit
import base64
import http.client
import itertools
import json
import os
import signal
import socket
import ssl
import subprocess
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import SystemRandom
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import IO, Any, ClassVar, Final, NamedTuple, Self

from support.process.start import KEYHOUSE, Started, start
from support.samples.deployment import User

PATIENCE = 90.0  # seconds until a start or an answer counts as failed, on a busy machine


class Reply(NamedTuple):
    """An answer of the Client API."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def envelope(self) -> dict[str, Any]:
        """The JSend object."""
        decoded = json.loads(self.body)
        assert isinstance(decoded, dict)
        return decoded

    @property
    def data(self) -> Any:
        """The data of a success."""
        assert self.status == 200, self.body
        return self.envelope["data"]

    @property
    def happened(self) -> bool | None:
        """Whether the requested change has happened; None: the answer leaves this open."""
        if self.status == 503:
            return None if "keyhouse-outcome" in self.headers else False
        return None if self.status >= 500 else self.status == 200


@cache
def _context(user: User | None) -> ssl.SSLContext:
    """Return the only context of ``user``: to load a key takes as long as a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # loads no CA certificates: saves 45 ms
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # tests of trust are elsewhere
    if user is not None:
        with NamedTemporaryFile() as pem:
            pem.write(user.pem + user.key_pem)
            pem.flush()
            context.load_cert_chain(pem.name)
    return context


class _Connection(http.client.HTTPSConnection):
    """Leaves no socket open if the server resets the connection before the handshake.

    CPython's ``SSLSocket._create`` then raises without a reference to the new socket. The socket
    stays open until its collection, and its ResourceWarning fails a test that kills the server.
    """

    def connect(self) -> None:
        try:
            super().connect()
        except OSError as error:
            for frame, _ in traceback.walk_tb(error.__traceback__):
                unfinished = frame.f_locals.get("self")
                if isinstance(unfinished, ssl.SSLSocket):
                    unfinished.close()
            raise


class Client:
    """A connection to ``127.0.0.1:port``, with the certificate of ``user``; None: without."""

    def __init__(self, port: int, user: User | None = None) -> None:
        self.connection = _Connection("127.0.0.1", port, context=_context(user), timeout=PATIENCE)

    def call(self, method: str, path: str, body: bytes | None = None) -> Reply:
        """Send a request; return the answer."""
        self.connection.request(method, path, body=body)
        answer = self.connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, headers, answer.read())

    def get(self, path: str) -> Reply:
        """GET ``path``."""
        return self.call("GET", path)

    def post(self, path: str, value: Any) -> Reply:
        """POST ``value`` as JSON."""
        return self.call("POST", path, json.dumps(value).encode())

    def set_manifest(self, raw: bytes) -> Reply:
        """Set the manifest ``raw``."""
        return self.post("/api/v2/manifest", {"manifest": base64.b64encode(raw).decode()})

    def upload(self, values: Mapping[str, bytes]) -> Reply:
        """Upload keys."""
        encoded = {name: {"key": base64.b64encode(key).decode()} for name, key in values.items()}
        return self.post("/api/v2/secrets", {"secrets": encoded})

    def secrets(self, names: Sequence[str]) -> dict[str, bytes | None]:
        """Return the private values of ``names``."""
        query = "&".join(f"s={name}" for name in names)
        found = self.get(f"/api/v2/secrets?{query}").data["secrets"]
        return {
            name: base64.b64decode(secret["private"]) if secret["private"] else None
            for name, secret in found.items()
        }

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ports() -> Iterator[int]:
    """Yield ports outside the kernel's range for outgoing connections, distinct in each worker.

    A port in this range may be used by a client of some other test before a server listens.
    """
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = range(12_000 + worker % 8, ephemeral, 8)
    yield from itertools.cycle(SystemRandom().sample(own, len(own)))


_PORTS: Final = _ports()
_HELD: Final[deque[socket.socket]] = deque()
_MOST_HELD: Final = 32


@atexit.register
def _let_go() -> None:
    while _HELD:
        _HELD.pop().close()


def free_port() -> int:
    """Return a free port of 127.0.0.1.

    A socket holds the port for a while. So no other run of the tests on this machine gets the port
    before a server listens, or during a restart of the server. Servers set ``SO_REUSEADDR``, so
    they may listen nevertheless.
    """
    for port in itertools.islice(_PORTS, 1000):
        held = socket.socket()
        try:
            held.bind(("127.0.0.1", port))
        except OSError:
            held.close()
            continue
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _HELD.append(held)
        if len(_HELD) > _MOST_HELD:
            _HELD.popleft().close()
        return port
    raise AssertionError("no port is free")


class Server:
    """A coordinator over ``data``. ``with`` starts the coordinator, and stops it at the end.

    ``cold``: each start has a new interpreter, see ``support.process.start``. ``program``: the
    path of ``keyhouse`` in another installation, which is always cold.
    """

    patience: ClassVar = PATIENCE

    def __init__(
        self,
        data: Path,
        *,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
        cold: bool = False,
        program: str = KEYHOUSE,
    ) -> None:
        self.data = data
        self.port, self.mesh_port = free_port(), free_port()
        self.log = data.parent / f"{data.name}.log"
        self._cold = cold
        self._program = len(wrapper)
        self._command = [
            *wrapper,
            program,
            "serve",
            "--platform",
            "simulation",
            "--data-dir",
            str(data),
            "--client-addr",
            f"127.0.0.1:{self.port}",
            "--mesh-addr",
            f"127.0.0.1:{self.mesh_port}",
            *arguments,
        ]
        self._environment = dict(environment or {})
        self.process: Started | None = None

    def run_next(self, program: str, *arguments: str) -> None:
        """Let the next start run ``program`` of another installation, with more arguments."""
        self._command[self._program] = program
        self._command += arguments

    def launch(self) -> Started:
        """Start the process and return at once. The process may wait, or never serve."""
        running = self.process is not None and self.process.poll() is None
        assert not running, "a second process would hide the first, and nobody would end that"
        with self.log.open("ab") as log:
            self.process = self._start(log)
        return self.process

    def start(self) -> Self:
        """Start the process; return when the Client API answers."""
        process = self.launch()
        try:
            self._wait(process)
        except BaseException:  # also a test's timeout: nothing else would end the process
            self.kill()
            raise
        return self

    def _wait(self, process: Started) -> None:
        deadline = time.monotonic() + self.patience
        while not listens(self.port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(self.log.read_text()[-4000:])

    def _start(self, log: IO[bytes]) -> Started:
        program, *arguments = self._command
        if program != KEYHOUSE:
            return subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)
        return start(
            arguments, output=log, errors=log, environment=self._environment, cold=self._cold
        )

    def client(self, user: User | None = None) -> Client:
        """Return a connection as ``user``; None: without a certificate."""
        return Client(self.port, user)

    def kill(self) -> None:
        """Kill the process, as a power cut would end it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def logged(self) -> str:
        """Return the whole log."""
        return self.log.read_text()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()


def children(process: int) -> list[int]:
    """Return the ids of the children of a process; empty if the process has ended."""
    try:
        listed = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(each) for each in listed.split()]


def signal_all(number: int, *processes: int) -> None:
    """Send a signal to all running processes of ``processes``."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def listens(port: int) -> bool:
    """Return whether a server accepts connections at ``port``; wait 5 ms if none does."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        time.sleep(0.005)  # polls a process: there is no event to wait for
        return False
    return True
