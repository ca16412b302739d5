"""Typical mistakes, typed: `mistakes.md` has each with exactly what the command answers.

``GOLDEN=write`` writes the answers that are given now; read them before they are kept.
"""

import base64
import re
import shlex
import shutil
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from support.peers.golden import is_writing
from support.process.command import Ended, run
from support.process.server import Server
from support.samples.deployment import user
from support.samples.fixed_keys import unused_rsa_key

from keyhouse.coordinator import Phase

pytestmark = pytest.mark.acceptance

PAGE = Path(__file__).with_name("mistakes.md")
BLOCK = re.compile(
    r"^### (?P<title>.+)\n\n(?P<files>(?:`\S+` holds `.*`\n+)*)```console\n"
    r"\$ (?P<command>keyhouse .+)\n(?P<answer>(?:.*\n)*?)```\n",
    re.MULTILINE,
)
FILE = re.compile(r"^`(\S+)` holds `(.*)`$", re.MULTILINE)
HTTP = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"


class Mistake(NamedTuple):
    """What is typed, with these files, and what it answers."""

    title: str
    files: dict[str, bytes]
    command: str
    answer: str


def mistakes() -> list[Mistake]:
    return [
        Mistake(
            found["title"],
            {name: unescaped(text) for name, text in FILE.findall(found["files"])},
            found["command"],
            found["answer"],
        )
        for found in BLOCK.finditer(PAGE.read_text())
    ]


def unescaped(text: str) -> bytes:
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1")


class Desk(NamedTuple):
    """A folder with a user's files, and the words of the page for what has a name of its own."""

    folder: Path
    words: dict[str, str]

    def type(self, mistake: Mistake) -> str:
        """Return what the command answers, in the words of the page."""
        folder = self.folder / "typed"
        shutil.copytree(self.folder / "files", folder)
        try:
            for name, content in mistake.files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(
                    self._meant(content.decode("latin-1")).encode("latin-1")
                )
            words = shlex.split(self._meant(mistake.command))[1:]
            ended = run(*words, folder=folder, env={"HOME": str(folder)})
        finally:
            shutil.rmtree(folder)
        return self.shown(ended)

    def shown(self, ended: Ended) -> str:
        """Return the errors, in the words of the page, without the progress of a launcher."""
        lines = ended.err.splitlines(keepends=True)
        answer = "".join(line for line in lines if not line.startswith("keyhouse run: "))
        for word, meant in self.words.items():
            answer = answer.replace(meant, word)
        return f"{answer.rstrip()}\n(exit code {ended.code})\n"

    def _meant(self, text: str) -> str:
        for word, meant in self.words.items():
            text = text.replace(word, meant)
        return text


@pytest.fixture(scope="module")
def desk(servers: dict[Phase, Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("mistakes")
    shutil.copytree(servers[Phase.RUNNING].data / "simulation", folder / "files")
    shutil.copytree(
        servers[Phase.RECOVERY].data / "simulation", folder / "files" / "lost", dirs_exist_ok=True
    )
    shutil.copytree(servers[Phase.ACCEPTING_MANIFEST].data / "simulation", folder / "files" / "new")
    files(folder / "files")
    running, waiting = servers[Phase.RUNNING], servers[Phase.ACCEPTING_MANIFEST]
    with listener(HTTP) as plain, listener(b"SSH-2.0-OpenSSH_9.2\r\n") as ssh, closed() as nobody:
        words = {
            "plain.example:80": f"127.0.0.1:{plain}",
            "ssh.example:22": f"127.0.0.1:{ssh}",
            "down.example:4433": f"127.0.0.1:{nobody}",
            "prod.example:4433": f"127.0.0.1:{running.port}",
            "prod.example:2001": f"127.0.0.1:{running.mesh_port}",
            "new.example:4433": f"127.0.0.1:{waiting.port}",
            "lost.example:4433": f"127.0.0.1:{servers[Phase.RECOVERY].port}",
        }
        yield Desk(folder, words)


def files(folder: Path) -> None:
    """Make what the commands of the page name."""
    for name in ("writer", "nobody"):
        (folder / f"{name}.crt").write_bytes(user(name).pem)
        (folder / f"{name}.key").write_bytes(user(name).key_pem)
    key = load_pem_private_key(user("writer").key_pem, None)
    certificate = x509.load_pem_x509_certificate(user("writer").pem)
    secret = BestAvailableEncryption(b"x")
    made = {
        "writer.der": certificate.public_bytes(Encoding.DER),
        "key.der": key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        "encrypted.key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret),
        "old.crt": expired(),
        "old.key": user("old").key_pem,
        "half.crt": user("writer").pem[:200],
        "empty.pem": b"",
        "wrong.txt": b"wrong",
        "request.csr": b"-----BEGIN CERTIFICATE REQUEST-----\nAA==\n",
        "holder.key": unused_rsa_key().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ),
        "share.b64": base64.b64encode(bytes(256)),
    }
    for name, content in made.items():
        (folder / name).write_bytes(content)


def expired() -> bytes:
    """Return a certificate (PEM) of the user "old" that has ended."""
    key = load_pem_private_key(user("old").key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "old")])
    return (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2025, 6, 30, tzinfo=UTC))
        .sign(key, SHA256())
        .public_bytes(Encoding.PEM)
    )


class Listener:
    """Answers each connection with the same bytes, whatever it is told."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> int:
        self._thread.start()
        port: int = self._socket.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(65_536)
                connection.sendall(self._answer)


listener = Listener


class closed:  # noqa: N801 reads as a sentence
    """Gives a port at which nothing listens, and nothing can while it is held."""

    def __enter__(self) -> int:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        port: int = self._socket.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._socket.close()


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: mistake.title)
def test_mistake_is_answered_by_what_where_and_how_to_fix_it(desk: Desk, mistake: Mistake) -> None:
    answer = desk.type(mistake)

    if is_writing():
        page = PAGE.read_text()
        typed = f"$ {mistake.command}\n"
        at = page.index(typed, page.index(f"### {mistake.title}\n")) + len(typed)
        PAGE.write_text(page[:at] + answer + page[at + len(mistake.answer) :])
        return
    assert answer == mistake.answer
    assert "error: " in answer


def test_page_has_sixty_mistakes_and_each_is_another() -> None:
    found = mistakes()

    assert len(found) >= 60
    assert len({mistake.title for mistake in found}) == len(found)
    assert len({(mistake.command, *mistake.files.values()) for mistake in found}) == len(found)
    assert len(found) == PAGE.read_text().count("\n### ")
