"""Three workloads talk with each other through updates, each as client and as server."""

import itertools
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest
from cryptography import x509
from support.living.coordinators import begin, manifest_with, update
from support.living.supervised import Supervised, living_type
from support.process.server import Server

pytestmark = pytest.mark.acceptance

OVERLAP = {"OverlapHours": 1}
UPDATES = 4
"""Updates that keep the trust in former roots. A fifth former root is not possible."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A coordinator without a manifest."""
    with Server(tmp_path / "living") as server:
        yield server


def marble(number: int) -> dict[str, Any]:
    made = living_type(OnChange={"Signal": "HUP"})
    files = made["Parameters"]["Files"]
    files["both.pem"] = files["tls.pem"] + files["tls.key"]
    made["Parameters"]["Env"]["NUMBER"] = str(number)
    return made


def roots(folder: Path) -> int:
    return len(x509.load_pem_x509_certificates((folder / "roots.pem").read_bytes()))


def context(protocol: int, certificate: Path, trusted: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(protocol)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_cert_chain(certificate)
    made.load_verify_locations(trusted)
    return made


def talk(client: Path, server: Path, certificate: str = "both.pem") -> None:
    """Shake hands in memory, with the files of both. Raises ``ssl.SSLError``."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = context(ssl.PROTOCOL_TLS_CLIENT, client / certificate, client / "roots.pem")
    answers = context(ssl.PROTOCOL_TLS_SERVER, server / "both.pem", server / "roots.pem")
    left = [
        asks.wrap_bio(to_client, to_server),
        answers.wrap_bio(to_server, to_client, server_side=True),
    ]
    while left:
        for side in tuple(left):
            try:
                side.do_handshake()
                left.remove(side)
            except ssl.SSLWantReadError:
                pass


class Talk:
    """Lets each of ``folders`` talk with each other in turns, and counts."""

    def __init__(self, folders: list[Path]) -> None:
        self._pairs = list(itertools.permutations(folders, 2))
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.handshakes = 0
        self.failures: list[str] = []

    def _run(self) -> None:
        for client, server in itertools.cycle(self._pairs):
            if self._stops.is_set():
                return
            try:
                talk(client, server)
                self.handshakes += 1
            except (ssl.SSLError, OSError) as error:
                self.failures.append(f"{client.name} to {server.name}: {error}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stops.set()
        self._thread.join()


def test_workloads_talk_through_updates_until_one_cuts_off(server: Server, tmp_path: Path) -> None:
    begin(server, marble(0), Trust=OVERLAP)
    with ExitStack() as running:
        apps = [
            running.enter_context(Supervised(server.mesh_port, tmp_path / name))
            for name in ("one", "two", "three")
        ]
        for app in apps:
            app.state("started")
        folders = [app.folder for app in apps]
        with Talk(folders) as talking:
            for number in range(1, UPDATES + 1):
                update(server, manifest_with(marble(number), Trust=OVERLAP))
                for app in apps:
                    while roots(app.folder) <= number:
                        app.state("SIGHUP")
                before = talking.handshakes
                while talking.handshakes < before + 12 and not talking.failures:
                    pass
        assert talking.failures == []

        # A raised security version cuts off at once.
        former = tmp_path / "one" / "former.pem"
        former.write_bytes((tmp_path / "one" / "both.pem").read_bytes())
        update(server, json.dumps({"Packages": {"app": {"SecurityVersion": 2}}}).encode())
        for app in apps:
            while roots(app.folder) > 1:
                app.state("SIGHUP")
        for client, other in itertools.permutations(folders, 2):
            talk(client, other)
        for other in folders[1:]:
            with pytest.raises(ssl.SSLError):
                talk(folders[0], other, "former.pem")
        assert server.logged().count("a workload was activated") == len(apps)
