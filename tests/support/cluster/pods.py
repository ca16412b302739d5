"""Pods for the admission policies, and an installation of the chart with these policies."""

import copy
from collections.abc import Callable
from typing import Any, Final

import pytest

from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.errors import ClusterRefusedError
from keyhouse.cli.kube.installation import apply, plan
from keyhouse.cli.kube.rendering.chart import Release

__all__ = [
    "CASES",
    "DIGEST",
    "MARBLES",
    "ROOT",
    "TEMPLATES",
    "Admission",
    "install",
    "pod",
    "settle",
    "template",
    "values",
]

DIGEST: Final = f"sha256:{'a' * 64}"
ROOT: Final = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n"
MARBLES: Final = ("backend", "frontend", "Database_1")
_OWN: Final = "keyhouse/marble"
_THEIRS: Final = "marblerun/marbletype"
_EPC: Final = "sgx.intel.com/epc"

Pod = dict[str, Any]


def values(**injection: Any) -> dict[str, Any]:
    return {
        "image": {"repository": "registry.example/keyhouse", "digest": DIGEST},
        "sgx": {"enabled": True},
        "injection": {"enabled": True, "trust": {"rootCertificate": ROOT}, **injection},
    }


def install(admin: Cluster, namespace: str, given: dict[str, Any], *marbles: str) -> Release:
    """Install the chart in a namespace; its policies apply to this namespace only."""
    release = Release("keyhouse", namespace)
    given["injection"]["namespaceSelector"] = {
        "matchLabels": {"kubernetes.io/metadata.name": namespace}
    }
    list(apply(admin, plan(admin, release, given), dry_run=False, force=False))
    listed = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "keyhouse-marbles"},
        "data": {"marbles": "\n".join(marbles)},
    }
    if marbles:
        admin.apply(listed, namespace, manager="keyhouse-sync")
    return release


def pod(labels: dict[str, str], *containers: Pod, **spec: Any) -> Pod:
    made = containers or ({"name": "app"},)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "labels": labels},
        "spec": {
            "containers": [{"image": "registry.example/app", **each} for each in made],
            **spec,
        },
    }


def settle(attempt: Callable[[], bool]) -> None:
    """Repeat until the API server applies the new policies.

    The API server watches the policies, so a new policy is in force some time later.
    """
    for _ in range(2000):
        if attempt():
            return
    raise AssertionError("the API server has not read the policies")


class Admission:
    """Creates pods in a namespace with both policies."""

    def __init__(self, admin: Cluster, namespace: str) -> None:
        self.admin = admin
        self.namespace = namespace
        self._number = 0

    def create(self, thing: Pod, **query: str) -> Pod:
        self._number += 1
        thing = copy.deepcopy(thing)
        thing["metadata"]["name"] += f"-{self._number}"
        resource = self.admin.resource(thing["apiVersion"], thing["kind"])
        made = self.admin.request(
            "POST", resource.path(self.namespace), thing["kind"], body=thing, query=query
        )
        assert isinstance(made, dict)
        return made

    def refusal(self, thing: Pod) -> str:
        with pytest.raises(ClusterRefusedError) as error:
            self.create(thing)
        assert error.value.status == 422
        return str(error.value)

    def is_active(self) -> bool:
        """Whether both policies of this namespace are in force."""
        try:
            made = self.create(pod({_OWN: "backend"}), dryRun="All")
        except ClusterRefusedError:
            return False
        if "volumes" not in made["spec"]:
            return False
        try:
            self.create(pod({_OWN: "nobody"}), dryRun="All")
        except ClusterRefusedError as error:
            return "has no marble nobody" in error.message
        return False


def template(labels: dict[str, str], kind: str) -> Pod:
    inner = {"metadata": {"labels": {"app": "x", **labels}}, "spec": pod({})["spec"]}
    spec: Pod = {"template": inner}
    version = "apps/v1"
    if kind in {"Job", "CronJob"}:
        version = "batch/v1"
        inner["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": {"app": "x"}}
    if kind == "StatefulSet":
        spec["serviceName"] = "x"
    if kind == "CronJob":
        spec = {"schedule": "@daily", "jobTemplate": {"spec": spec}}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec}


TEMPLATES: Final = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")


def _init() -> list[Pod]:
    return [
        {"name": "init", "image": "i"},
        {"name": "side", "image": "i", "restartPolicy": "Always"},
    ]


def _of(name: str, env: list[Pod]) -> Pod:
    return pod({name: "backend"}, {"name": "a", "env": env})


_DATA: Final = [{"name": "data", "emptyDir": {}}]
_TOLERATIONS: Final = [
    {"key": "own", "operator": "Exists", "effect": "NoExecute"},
    {"key": _EPC, "operator": "Exists"},
]

CASES: Final[dict[str, Pod]] = {
    "no label": pod({}),
    "another label": pod({"app": "backend"}),
    "a similar label": pod({"keyhouse.example/marble": "x"}),
    "a marble": pod({_OWN: "backend"}),
    "a marble of MarbleRun": pod({_THEIRS: "frontend"}),
    "a marble without a DNS name": pod({_OWN: "Database_1"}),
    "both labels": pod({_OWN: "backend", _THEIRS: "backend"}),
    "two marbles": pod({_OWN: "backend", _THEIRS: "frontend"}),
    "a slip": pod({_OWN: "fronted"}),
    "another case": pod({_OWN: "Frontend"}),
    "a slip in MarbleRun's label": pod({_THEIRS: "bakend"}),
    "a shortened name": pod({_OWN: "database"}),
    "an empty name": pod({_OWN: ""}),
    "an unknown label": pod({"keyhouse/marbel": "backend"}),
    "an unknown label of MarbleRun": pod({"marblerun/marbleType": "backend"}),
    "a container alone": pod({"keyhouse/container": "app"}),
    "an unknown container": pod({_OWN: "backend", "keyhouse/container": "ap"}),
    "an unknown container of MarbleRun": pod(
        {_THEIRS: "backend", "marblerun/marblecontainer": "x"}
    ),
    "wrong resources": pod({_OWN: "backend", "keyhouse/resources": "off"}),
    "wrong resources of MarbleRun": pod({_THEIRS: "backend", "marblerun/resource-injection": "no"}),
    "no resources": pod({_OWN: "backend", "keyhouse/resources": "disabled"}),
    "no resources of MarbleRun": pod(
        {_THEIRS: "backend", "marblerun/resource-injection": "disabled"}
    ),
    "a launcher without a command": pod({_OWN: "backend", "keyhouse/launcher": "enabled"}),
    "a launcher": pod(
        {_OWN: "backend", "keyhouse/launcher": "enabled"},
        {"name": "a", "command": ["/app", "--x"], "args": ["y"]},
    ),
    "a launcher of one container": pod(
        {_OWN: "backend", "keyhouse/launcher": "enabled", "keyhouse/container": "b"},
        {"name": "a"},
        {"name": "b", "command": ["/app"]},
    ),
    "a launcher that is off": pod({_OWN: "backend", "keyhouse/launcher": "disabled"}),
    "several containers": pod({_OWN: "backend"}, {"name": "a"}, {"name": "b"}, {"name": "c"}),
    "one of several containers": pod(
        {_OWN: "backend", "keyhouse/container": "b"}, {"name": "a"}, {"name": "b"}
    ),
    "one of several containers of MarbleRun": pod(
        {_THEIRS: "backend", "marblerun/marblecontainer": "b"}, {"name": "a"}, {"name": "b"}
    ),
    "init and sidecar containers": pod({_OWN: "backend"}, {"name": "a"}, initContainers=_init()),
    "an init container": pod(
        {_OWN: "backend", "keyhouse/container": "init"}, {"name": "a"}, initContainers=_init()
    ),
    "a sidecar container": pod(
        {_OWN: "backend", "keyhouse/container": "side"}, {"name": "a"}, initContainers=_init()
    ),
    "an own variable": _of(_OWN, [{"name": "KEYHOUSE_MARBLE_DNS_NAMES", "value": "own.example"}]),
    "an own variable of MarbleRun": _of(
        _THEIRS, [{"name": "X", "value": "1"}, {"name": "EDG_MARBLE_DNS_NAMES", "value": "own"}]
    ),
    "a variable from a Secret": _of(
        _OWN,
        [{"name": "EDG_MARBLE_TYPE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    ),
    "own volumes": pod(
        {_OWN: "backend"},
        {"name": "a", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        volumes=_DATA,
    ),
    "an own mount at the place": pod(
        {_OWN: "backend"},
        {"name": "a", "volumeMounts": [{"name": "data", "mountPath": "/run/keyhouse"}]},
        volumes=_DATA,
    ),
    "an own volume of the name": pod(
        {_OWN: "backend"}, volumes=[{"name": "keyhouse-marble", "emptyDir": {}}]
    ),
    "own tolerations": pod({_OWN: "backend"}, tolerations=_TOLERATIONS),
    "own limits": pod(
        {_OWN: "backend"},
        {"name": "a", "resources": {"limits": {_EPC: "512Mi"}, "requests": {"cpu": "1"}}},
    ),
    "own requests": pod({_OWN: "backend"}, {"name": "a", "resources": {"requests": {"cpu": "1"}}}),
    "own annotations": {
        **pod({_OWN: "backend"}),
        "metadata": {"name": "pod", "labels": {_OWN: "backend"}, "annotations": {"a/b": "c"}},
    },
    **{f"a {kind} with a marble": template({_OWN: "backend"}, kind) for kind in TEMPLATES},
    **{f"a {kind} with a slip": template({_OWN: "bakend"}, kind) for kind in TEMPLATES},
}
"""Objects by description, for the marbles ``MARBLES`` and a chart with a launcher."""
