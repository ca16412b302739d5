"""One API server for all tests of a worker: its start takes seconds."""

from collections.abc import Iterator

import pytest
from support.cluster.server import KubernetesServer

from keyhouse.cli.kube.api.cluster import Cluster


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[KubernetesServer]:
    with KubernetesServer.running() as server:
        yield server


@pytest.fixture
def admin(kubernetes: KubernetesServer) -> Cluster:
    return kubernetes.cluster()


@pytest.fixture
def namespace(kubernetes: KubernetesServer, admin: Cluster) -> str:
    """A new namespace."""
    name = kubernetes.new_name("keys")
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "")
    return name
