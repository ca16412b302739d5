"""The lab of a run: replicas on simulated machines, a database, and proxies between them."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import load_pem_x509_certificates
from fuzz.chaos.deployment import chaos_manifest
from fuzz.target import FindingError
from support.peers.postgres import PASSWORD
from support.peers.replicas import Replicas
from support.process.server import Server, children, listens, signal_all
from support.replicas.cluster import PORT, Cluster
from support.replicas.proxies import Proxies
from support.replicas.threads import threads

from keyhouse.base.secret import Secret

__all__ = ["Lab", "Plan", "lab"]

_NODES: Final = 2
_RESTART_SECONDS: Final = 1.0
"""Time until the restart of an ended replica, as by a supervisor of services."""
_PATIENCE: Final = 60.0


class Plan(NamedTuple):
    """The settings of a lab, see ``Settings``."""

    folder: Path
    machines: int
    replicas: int
    types: int
    program: str
    cold: bool
    upgrade_to: str
    adopts_root: bool


class Lab:
    """Replicas, database and proxies. Replica N is on machine N, with a proxy to each node."""

    def __init__(
        self, cluster: Cluster, proxies: Proxies, servers: list[Server], upgrade: Sequence[str]
    ) -> None:
        self.upgrade: Final = upgrade  # program and further arguments of the fault ``upgrade``
        self.cluster: Final = cluster
        self.servers: Final = servers
        self.exits: Final = Counter[str]()
        self._proxies = proxies
        self._ending = threading.Event()

    def network(self, machine: int, what: str, node: int | None = None, **more: Any) -> None:
        """Send an order to the proxies of a machine, or only to the proxy to ``node``."""
        for each in range(_NODES) if node is None else [node]:
            self._proxies.order(machine * _NODES + each, what, **more)

    def everywhere(self, node: int, what: str, **more: Any) -> None:
        """Send an order to the proxies to ``node`` of all machines."""
        for machine in range(len(self.servers)):
            self.network(machine, what, node, **more)

    def lead(self, node: int) -> None:
        """Connect the proxies for place ``node`` to the present node in this place."""
        for machine in range(len(self.servers)):
            address = self.cluster.nodes[node].address
            self._proxies.lead(machine * _NODES + node, (address, PORT))

    def processes(self, machine: int) -> list[int]:
        """Return the process ids of a replica, the parent first."""
        process = self.servers[machine].process
        assert process is not None  # noqa: S101 - the lab has started the process
        return [process.pid, *children(process.pid)]

    def end(self, machine: int, number: int, chance: float) -> None:
        """End one process of a replica by the signal ``number``; wait until the replica listens.

        ``chance``, from 0 to 1, chooses the process.
        """
        server = self.servers[machine]
        processes = self.processes(machine)
        chosen = processes[int(chance * len(processes))]
        ended = server.process
        signal_all(number, chosen)
        if ended is not None and chosen == ended.pid:
            ended.wait(_PATIENCE)
        self.await_listening(machine)

    def await_listening(self, machine: int) -> None:
        """Wait until a replica accepts connections, for 60 seconds at most."""
        server, deadline = self.servers[machine], time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            process = server.process
            if process is not None and process.poll() is None and listens(server.port):
                return

    @contextmanager
    def supervised(self) -> "Iterator[Lab]":
        """Restart each ended replica until the context ends."""
        works = (partial(self._supervise, machine) for machine in range(len(self.servers)))
        with threads(self._ending, works):
            yield self

    def _supervise(self, machine: int) -> None:
        server = self.servers[machine]
        while not self._ending.wait(0.05):
            process = server.process
            if process is None or process.poll() is None:
                continue
            self.exits[str(process.returncode)] += 1
            if not self._ending.wait(_RESTART_SECONDS):
                server.launch()


@contextmanager
def lab(plan: Plan) -> Iterator[Lab]:
    """Build a lab and set the first manifest. The end of the context ends all processes."""
    with Cluster.running() as cluster:
        targets = [(node.address, PORT) for _ in range(plan.machines) for node in cluster.nodes]
        with Proxies.running(targets) as proxies:
            replicas = Replicas(plan.folder, None, program=plan.program, cold=plan.cold)
            try:
                _start(plan, replicas, cluster, proxies)
                yield Lab(cluster, proxies, replicas.all, _upgrade(plan, replicas.all[0]))
            finally:
                _end(replicas)


def _upgrade(plan: Plan, server: Server) -> list[str]:
    if not plan.adopts_root:
        return [plan.upgrade_to]
    with server.client() as client:
        chain = load_pem_x509_certificates(client.get("/api/v2/quote").data["cert"].encode())
    return [plan.upgrade_to, "--adopt-root", chain[-1].fingerprint(SHA256()).hex()]


def _end(replicas: Replicas) -> None:
    """Kill all replicas and their child processes."""
    others = [
        child for server in replicas.all if server.process for child in children(server.process.pid)
    ]
    replicas.end()
    signal_all(signal.SIGKILL, *others)


def _start(plan: Plan, replicas: Replicas, cluster: Cluster, proxies: Proxies) -> None:
    arguments = ["--store-standbys", "1"]
    arguments += ["--replicas", str(plan.replicas)] if plan.replicas > 1 else []
    for machine in range(plan.machines):
        ports = proxies.ports[machine * _NODES : (machine + 1) * _NODES]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        url = f"postgresql://keyhouse:{PASSWORD}@{hosts}/{cluster.database}"
        replicas.url = Secret(url.encode())
        if machine:
            replicas.elsewhere(*arguments).start()
            continue
        with replicas.started(*arguments).client() as client:
            reply = client.set_manifest(chaos_manifest(plan.machines, plan.types))
        if reply.status != 200:
            raise FindingError(f"the first manifest was refused: {reply}")
