"""The objects for the Prometheus operator, on an API server with its definitions."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from support.cluster.pods import settle
from support.cluster.server import KubernetesServer

from keyhouse.base.errors import RefusedError
from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.errors import ClusterRefusedError
from keyhouse.cli.kube.installation import apply, installed, plan, uninstall
from keyhouse.cli.kube.rendering.chart import Release

_GROUP: Final = "monitoring.coreos.com/v1"
_KINDS: Final = ("ServiceMonitor", "PrometheusRule")
_VALUES: Final[dict[str, Any]] = {
    "image": {"repository": "registry.example/keyhouse", "digest": f"sha256:{'a' * 64}"},
    "arguments": ["--platform", "simulation"],
    "injection": {"enabled": False},
    "metrics": {"serviceMonitor": True, "rules": True},
}


@pytest.fixture(scope="module")
def operator() -> Iterator[Cluster]:
    """An API server of its own: further kinds would change the tests of others."""
    folder = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "crds"
    files = sorted(folder.glob("monitoring.coreos.com_*.yaml"))
    if not os.environ.get("KUBEBUILDER_ASSETS") or len(files) < len(_KINDS):
        pytest.skip("KUBEBUILDER_ASSETS has no crds: scripts/kubernetes-binaries copies them")
    with KubernetesServer.running() as server:
        admin = server.cluster()
        with pytest.raises(RefusedError, match="PrometheusRule"):
            change(admin, "keys")
        for file in files:
            definition = yaml.safe_load(file.read_text(encoding="utf-8"))
            admin.apply(definition, "")
        made = Cluster(admin.access)  # a client remembers the kinds that it has seen
        settle(lambda: _serves(made))
        yield made
        made.close()


def _serves(cluster: Cluster) -> bool:
    try:
        path = f"/apis/{_GROUP}/prometheusrules"
        cluster.request("GET", path, path)
        cluster.request("GET", path.replace("prometheusrules", "servicemonitors"), path)
    except ClusterRefusedError:
        return False
    return True


def change(admin: Cluster, namespace: str) -> dict[str, str]:
    planned = plan(admin, Release("keyhouse", namespace), _VALUES)
    changes = apply(admin, planned, dry_run=False, force=False)
    return {each.kind: each.change for each in changes if each.kind in _KINDS}


def test_the_objects_of_the_chart_are_accepted_once_and_removed(operator: Cluster) -> None:
    assert change(operator, "keys") == dict.fromkeys(_KINDS, "created")
    assert change(operator, "keys") == dict.fromkeys(_KINDS, "unchanged")
    rule = operator.get(_GROUP, "PrometheusRule", "keyhouse", "keys")
    monitor = operator.get(_GROUP, "ServiceMonitor", "keyhouse", "keys")
    assert rule is not None
    assert monitor is not None
    assert len(rule["spec"]["groups"][0]["rules"]) > 5
    labels = monitor["spec"]["selector"]["matchLabels"]
    service = operator.get("v1", "Service", "keyhouse-metrics", "keys")
    assert service is not None
    assert labels.items() <= service["metadata"]["labels"].items()
    ports = {each["name"] for each in service["spec"]["ports"]}
    assert {each["port"] for each in monitor["spec"]["endpoints"]} == ports
    release = Release("keyhouse", "keys")
    removed = {each.kind for each in uninstall(operator, release, delete_state=True)}
    assert set(_KINDS) <= removed
    assert list(installed(operator, release)) == []


def test_the_definitions_refuse_a_wrong_duration(operator: Cluster) -> None:
    change(operator, "keys")
    rule = operator.get(_GROUP, "PrometheusRule", "keyhouse", "keys")
    assert rule is not None
    rule["spec"]["groups"][0]["rules"][0]["for"] = "soon"
    path = operator.resource(_GROUP, "PrometheusRule").path("keys", "keyhouse")
    with pytest.raises(ClusterRefusedError, match=r"groups\[0\].rules\[0\].for"):
        operator.request("PUT", path, "the rule", body=rule)
