"""Write the verified coordinator's root, and the names of its marbles, into the cluster."""

from typing import Any, Final

import msgspec

from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.installation import Applied, Change, full_name, policy_name
from keyhouse.cli.kube.rendering.chart import Release

_MANAGER: Final = "keyhouse-sync"
"""The manager of these fields. An upgrade has another manager, so an upgrade never removes them."""


class Marbles(msgspec.Struct, frozen=True):
    """The names of the marbles in a verified manifest, and the manifest's fingerprint (hex)."""

    fingerprint: str
    names: tuple[str, ...]


def write_bundle(cluster: Cluster, release: Release, pem: str, *, dry_run: bool) -> Applied:
    """Write the root certificate ``pem`` into the ClusterTrustBundle of ``release``.

    Return the change. With ``dry_run``, the API server only checks the change.
    """
    thing = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "ClusterTrustBundle",
        "metadata": {"name": policy_name(release)},
        "spec": {"trustBundle": pem},
    }
    return _write(cluster, release, thing, dry_run=dry_run)


def write_marbles(cluster: Cluster, release: Release, listed: Marbles, *, dry_run: bool) -> Applied:
    """Write the names in ``listed`` into the ConfigMap of the admission policy of ``release``.

    Return the change. The API server refuses a pod if its label names a marble outside of this
    ConfigMap. With ``dry_run``, the API server only checks the change.
    """
    thing = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{full_name(release)}-marbles"},
        "data": {"marbles": "\n".join(listed.names), "manifest": listed.fingerprint},
    }
    return _write(cluster, release, thing, dry_run=dry_run)


def _write(cluster: Cluster, release: Release, thing: dict[str, Any], *, dry_run: bool) -> Applied:
    kind, name = thing["kind"], thing["metadata"]["name"]
    before = cluster.get(thing["apiVersion"], kind, name, release.namespace)
    after = cluster.apply(thing, release.namespace, dry_run=dry_run, force=True, manager=_MANAGER)
    change: Change = "created"
    if before is not None:
        same = all(before.get(each) == after.get(each) for each in ("data", "spec"))
        change = "unchanged" if same else "changed"
    return Applied(kind, name, change)
