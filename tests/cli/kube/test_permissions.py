"""The role of the installer has every permission that the commands need, and no other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from support.cluster.server import KubernetesServer

from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.errors import FORBIDDEN, ClusterRefusedError
from keyhouse.cli.kube.health import findings
from keyhouse.cli.kube.installation import apply, plan, uninstall
from keyhouse.cli.kube.rendering.chart import Release
from keyhouse.cli.kube.synchronised import Marbles, write_bundle, write_marbles

_FILE: Final = Path(__file__).parents[3] / "deploy" / "kubernetes" / "installer.yaml"
_ROLE: Final[dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
_RBAC: Final = "rbac.authorization.k8s.io"
_PERMISSIONS: Final = [
    (group, resource, verb)
    for rule in _ROLE["rules"]
    for group in rule["apiGroups"]
    for resource in rule["resources"]
    for verb in rule["verbs"]
]
_IMAGE: Final = {"repository": "registry.example/keyhouse", "digest": f"sha256:{'a' * 64}"}
_PLAIN: Final = {"image": _IMAGE, "arguments": ["--platform", "simulation"]}
_EVERYTHING: Final = {
    **_PLAIN,
    "store": {"existingSecret": "database"},
    "networkPolicy": {"egress": [{"ports": [{"port": 5432}]}]},
    "persistence": {"accessMode": "ReadWriteOnce"},
    "backup": {"enabled": True, "storeSecret": "database-backup"},
    "ingress": {"enabled": True, "hostname": "keys.example"},
}


def use(server: KubernetesServer, admin: Cluster, user: Cluster) -> None:
    """Call everything that the commands do in a cluster."""
    namespace = server.new_name("permissions")
    release = Release("keyhouse", namespace)
    only_here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    injection = {"injection": {"enabled": True, **only_here}}
    authority = server.authority_file.read_text().rpartition("-----BEGIN CERTIFICATE-----")
    try:
        planned = plan(user, release, {**_EVERYTHING, **injection})
        list(apply(user, planned, dry_run=False, force=False))
        findings(user, release, planned.objects)
        write_marbles(user, release, Marbles("", ("a",)), dry_run=False)
        write_bundle(user, release, "".join(authority[1:]), dry_run=False)
        webhook = {"injection": {**injection["injection"], "webhook": {"enabled": True}}}
        other = plan(user, release, {**_EVERYTHING, **webhook})
        list(apply(user, other, dry_run=False, force=False))
        findings(user, release, other.objects)
        small = plan(user, release, {**_PLAIN, "injection": {"enabled": False}})
        # The StatefulSet of several pods cannot become a StatefulSet of one pod.
        admin.delete("apps/v1", "StatefulSet", "keyhouse", namespace)
        list(apply(user, small, dry_run=False, force=False))
        admin.apply(_claim("data-keyhouse-0"), namespace)
        list(uninstall(user, release, delete_state=True))
    finally:
        list(uninstall(admin, release, delete_state=True))


def _claim(name: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "keyhouse", "app.kubernetes.io/instance": "keyhouse"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": labels},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
    }


def rules(without: tuple[str, str, str] | None) -> list[dict[str, Any]]:
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for group, resource, verb in _PERMISSIONS
        if (group, resource, verb) != without
    ]


class Installer:
    """A user whose permissions a test changes."""

    def __init__(self, server: KubernetesServer) -> None:
        self.admin = server.cluster()
        self.name, token = server.new_user()
        self.cluster = server.cluster(token)

    def grant(self, without: tuple[str, str, str] | None) -> None:
        """Give the permissions, and wait until the API server has read them."""
        about = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": self.name}}
        given = rules(without)
        self.admin.apply({**about, "kind": "ClusterRole", "rules": given}, "", force=True)
        reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": self.name}
        subject = {"apiGroup": _RBAC, "kind": "User", "name": self.name}
        self.admin.apply(
            {**about, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
            "",
            force=True,
        )
        for _ in range(2000):
            if all(self._may(each) == (each != without) for each in _PERMISSIONS):
                return
        raise AssertionError("the API server has not read the role")

    def _may(self, permission: tuple[str, str, str]) -> bool:
        group, resource, verb = permission
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": self.name,
                "resourceAttributes": {"group": group, "resource": resource, "verb": verb},
            },
        }
        path = self.admin.resource("authorization.k8s.io/v1", "SubjectAccessReview").path("")
        answer = self.admin.request("POST", path, "a review", body=review)
        return bool(answer["status"]["allowed"])


@pytest.fixture(scope="module")
def installer(kubernetes: KubernetesServer) -> Iterator[Installer]:
    made = Installer(kubernetes)
    yield made
    for kind in ("ClusterRoleBinding", "ClusterRole"):
        made.admin.delete(f"{_RBAC}/v1", kind, made.name)


def test_the_role_permits_every_command(
    kubernetes: KubernetesServer, admin: Cluster, installer: Installer
) -> None:
    installer.grant(without=None)
    use(kubernetes, admin, installer.cluster)


@pytest.mark.parametrize("permission", _PERMISSIONS, ids=" ".join)
def test_without_any_one_permission_a_command_is_refused(
    kubernetes: KubernetesServer,
    admin: Cluster,
    installer: Installer,
    permission: tuple[str, str, str],
) -> None:
    installer.grant(without=permission)
    with pytest.raises(ClusterRefusedError) as error:
        use(kubernetes, admin, installer.cluster)
    assert error.value.status == FORBIDDEN
