"""Debian's nginx, haproxy and redis with one new certificate after another, under requests."""

import shutil
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from cryptography import x509
from support.living.coordinators import begin, revoke, upload
from support.living.supervised import Supervised, living_type
from support.process.server import Server, free_port, listens
from support.process.tool import tool

pytestmark = pytest.mark.acceptance

CERTIFICATES = 4
"""Certificates that a server has to serve, one after the other."""

NGINX = """
daemon off;
worker_processes 2;
error_log stderr;
pid {folder}/nginx.pid;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {folder}/tls.pem;
    ssl_certificate_key {folder}/tls.key;
    return 200 "served";
  }}
}}
"""

HAPROXY = """
global
  stats socket {sockets}/stats.sock mode 600 expose-fd listeners
defaults
  mode http
  timeout connect 10s
  timeout client 30s
  timeout server 30s
frontend web
  bind 127.0.0.1:{port} ssl crt {folder}/both.pem
  http-request return status 200 content-type text/plain string "served"
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A coordinator without a manifest."""
    with Server(tmp_path / "living") as server:
        yield server


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder with a short path: the path of a socket has at most 107 bytes."""
    with TemporaryDirectory(prefix="kh-") as folder:
        yield Path(folder)


def program(name: str) -> str:
    """Return the path of a server, which Debian keeps apart from the paths of users."""
    return shutil.which(name, path="/usr/sbin:/usr/bin") or tool(name)


@contextmanager
def connected(port: int, folder: Path) -> Iterator[ssl.SSLSocket]:
    """Connect to a workload, whose certificate has to verify under the delivered roots."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the name is the UUID
    context.load_verify_locations(folder / "roots.pem")
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as raw,
        context.wrap_socket(raw) as tls,
    ):
        yield tls


def serial(tls: ssl.SSLSocket) -> int:
    der = tls.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


def request(port: int, folder: Path) -> int:
    """Make a request over a new connection. Return the serial number of the certificate."""
    with connected(port, folder) as tls:
        tls.sendall(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := tls.recv(4096):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert answer.endswith(b"served")
        return serial(tls)


def marble(folder: Path, **on_change: Any) -> dict[str, Any]:
    made = living_type(OnChange=on_change)
    files = made["Parameters"]["Files"]
    files["both.pem"] = files["tls.pem"] + files["tls.key"]
    made["Parameters"]["Files"] = {f"{folder}/{name}": files[name] for name in files}
    return made


def renew(server: Server) -> None:
    """Let the workload renew its certificate at once."""
    revoke(server, {"scope": "type", "marbleType": "app"})


@pytest.mark.parametrize(
    ("name", "number", "configuration", "words"),
    [
        ("nginx", "HUP", NGINX, ["-c"]),
        ("haproxy", "USR2", HAPROXY, ["-W", "-db", "-f"]),
    ],
)
def test_a_web_server_reloads_without_a_failed_request(
    server: Server,
    tmp_path: Path,
    sockets: Path,
    name: str,
    number: str,
    configuration: str,
    words: list[str],
) -> None:
    path, port, folder = program(name), free_port(), tmp_path / "app"
    begin(server, marble(folder, Signal=number))
    file = tmp_path / "server.conf"
    file.write_text(configuration.format(folder=folder, port=port, sockets=sockets))
    command = [path, *words, str(file)]
    with Supervised(server.mesh_port, folder, program=command) as app:
        while not listens(port):
            assert app.process.poll() is None, app.reported()
        served = {request(port, folder)}
        for number_served in range(2, CERTIFICATES + 1):
            renew(server)
            while len(served) < number_served:
                served.add(request(port, folder))
        upload(server, bytes(15) + b"\1")
        assert app.process.poll() is None
        assert "restarting" not in app.reported()
        app.stop()


def test_redis_loads_both_files_together_and_keeps_its_connections(
    server: Server, tmp_path: Path, sockets: Path
) -> None:
    path, port, folder = program("redis-server"), free_port(), tmp_path / "app"
    files = ["tls-cert-file", f"{folder}/tls.pem", "tls-key-file", f"{folder}/tls.key"]
    client = [program("redis-cli"), "-s", f"{sockets}/redis.sock", "CONFIG", "SET", *files]
    begin(server, marble(folder, Command=client))
    options = {
        "port": "0",
        "tls-port": str(port),
        "bind": "127.0.0.1",
        "unixsocket": f"{sockets}/redis.sock",
        "tls-cert-file": f"{folder}/tls.pem",
        "tls-key-file": f"{folder}/tls.key",
        "tls-ca-cert-file": f"{folder}/roots.pem",
        "tls-auth-clients": "no",
        "save": "",
        "dir": str(folder),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    with Supervised(server.mesh_port, folder, program=[path, *words]) as app:
        while not listens(port):
            assert app.process.poll() is None, app.reported()
        with connected(port, folder) as kept:
            served = {serial(kept)}
            for number_served in range(2, CERTIFICATES + 1):
                renew(server)
                while len(served) < number_served:
                    with connected(port, folder) as tls:
                        served.add(serial(tls))
                    kept.sendall(b"PING\r\n")
                    assert kept.recv(100) == b"+PONG\r\n"
        assert "the command of OnChange has ended with code 0" in app.reported()
        assert "trying again" not in app.reported()
        app.stop()
