"""A real API server of Kubernetes with etcd on loopback, without a cluster.

No kubelet runs, so no container starts. The binaries come from ``KUBEBUILDER_ASSETS``, the usual
variable for such tests; ``scripts/kubernetes-binaries`` builds the binaries. If the directory has
``kube-controller-manager``, the controllers of Deployments and StatefulSets run too.
"""

import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from keyhouse.base.secret import Secret
from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.kubeconfig import Access
from support.process.server import PATIENCE, free_port

__all__ = ["KubernetesServer"]

_ADMIN: Final = "canary-of-an-administrator"
_CONTROLLERS: Final = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "job-controller",
    "cronjob-controller",
    "garbage-collector-controller",
)
_USERS: Final = 40


class KubernetesServer:
    """The API server, an administrator, and users without permissions."""

    def __init__(self, folder: Path, assets: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._assets = assets
        self._numbers = count(1)
        self._users = iter(range(_USERS))
        self._clusters: dict[str, Cluster] = {}

    @classmethod
    @contextmanager
    def running(cls, *options: str) -> Iterator["KubernetesServer"]:
        """Start all programs; skip the test without the binaries.

        ``options``: further options of the API server.
        """
        assets = os.environ.get("KUBEBUILDER_ASSETS", "")
        if not assets or not (Path(assets) / "kube-apiserver").is_file():
            pytest.skip("KUBEBUILDER_ASSETS is not set: scripts/kubernetes-binaries builds them")
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            server = cls(Path(folder), Path(assets))
            server._start(stack, options)
            yield server
            for cluster in server._clusters.values():
                cluster.close()

    def _start(self, stack: ExitStack, options: Sequence[str]) -> None:
        etcd, peer = free_port(), free_port()
        url, peer_url = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        stack.enter_context(
            self._program(
                "etcd",
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={url}",
                f"--advertise-client-urls={url}",
                f"--listen-peer-urls={peer_url}",
                f"--initial-advertise-peer-urls={peer_url}",
                f"--initial-cluster=default={peer_url}",
                "--unsafe-no-fsync",
                "--log-level=error",
            )
        )
        key = self.folder / "service-accounts.pem"
        subprocess.run(
            ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)],
            check=True,
            capture_output=True,
        )
        users = [f"{self.token(n)},user-{n},user-{n}" for n in range(_USERS)]
        tokens = self.folder / "tokens.csv"
        tokens.write_text("\n".join([f'{_ADMIN},admin,admin,"system:masters"', *users, ""]))
        stack.enter_context(
            self._program(
                "kube-apiserver",
                f"--etcd-servers={url}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self.port}",
                f"--cert-dir={self.folder / 'certificates'}",
                "--endpoint-reconciler-type=none",
                "--disable-admission-plugins=ServiceAccount",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-account-issuer=https://issuer.example",
                f"--token-auth-file={tokens}",
                "--authorization-mode=RBAC",
                *options,
                # The addresses of Services are loopback addresses, so a test can listen there.
                f"--service-cluster-ip-range=127.{10 + self.port % 200}.{self.port // 256}.0/24",
            )
        )
        self._await_ready()
        if (self._assets / "kube-controller-manager").is_file():
            stack.enter_context(
                self._program(
                    "kube-controller-manager",
                    f"--kubeconfig={self.kubeconfig()}",
                    "--leader-elect=false",
                    "--secure-port=0",
                    f"--controllers={','.join(_CONTROLLERS)}",
                )
            )

    @contextmanager
    def _program(self, name: str, *words: str) -> Iterator[None]:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen([str(self._assets / name), *words], stdout=log, stderr=log)
            try:
                yield
            finally:
                process.send_signal(signal.SIGKILL)  # no data has to survive
                process.wait()

    def _await_ready(self) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                context = ssl.create_default_context(cafile=str(self.authority_file))
                url = f"https://127.0.0.1:{self.port}/readyz"
                request = urllib.request.Request(url, headers={"Authorization": f"Bearer {_ADMIN}"})
                with urllib.request.urlopen(request, context=context, timeout=5):  # noqa: S310
                    return
            except (OSError, urllib.error.HTTPError) as error:
                if time.monotonic() > end:
                    log = (self.folder / "kube-apiserver.log").read_text(errors="replace")
                    raise AssertionError(log[-4000:]) from error
                time.sleep(0.1)

    @property
    def has_controllers(self) -> bool:
        """Whether controllers run, so Deployments and StatefulSets get pods."""
        return (self._assets / "kube-controller-manager").is_file()

    @property
    def authority_file(self) -> Path:
        """The certificates of the API server, with their authority (PEM)."""
        return self.folder / "certificates" / "apiserver.crt"

    @staticmethod
    def token(number: int) -> str:
        """Return the token of ``user-NUMBER``."""
        return f"canary-of-user-{number}"

    def new_user(self) -> tuple[str, str]:
        """Return the name and the token of a user without permissions."""
        number = next(self._users)
        return f"user-{number}", self.token(number)

    def new_name(self, prefix: str) -> str:
        """Return a name that no earlier test has used."""
        return f"{prefix}-{next(self._numbers)}"

    def cluster(self, token: str = _ADMIN) -> Cluster:
        """Return a client with the access of a user. Equal tokens share one client."""
        if token not in self._clusters:
            self._clusters[token] = Cluster(
                Access(
                    server=f"https://127.0.0.1:{self.port}",
                    authority=self.authority_file.read_bytes(),
                    token=Secret(token.encode()),
                )
            )
        return self._clusters[token]

    def kubeconfig(self, token: str = _ADMIN, name: str = "kubeconfig", **more: Any) -> Path:
        """Write the kubeconfig of a user; return the path.

        ``more``: fields of the user in place of the token.
        """
        user: Mapping[str, Any] = more or {"token": token}
        cluster = {
            "server": f"https://127.0.0.1:{self.port}",
            "certificate-authority": "certificates/apiserver.crt",
        }
        tree = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "loopback",
            "clusters": [{"name": "loopback", "cluster": cluster}],
            "users": [{"name": "somebody", "user": user}],
            "contexts": [
                {"name": "loopback", "context": {"cluster": "loopback", "user": "somebody"}}
            ],
        }
        path = self.folder / name
        path.write_text(json.dumps(tree))
        return path

    def kubectl(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl; return the result. Skip the test without kubectl."""
        program = shutil.which("kubectl")
        if program is None:
            pytest.skip("kubectl is not on PATH")
        return subprocess.run(
            [program, f"--kubeconfig={self.kubeconfig()}", *words],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
