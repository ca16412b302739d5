"""Apply the objects of the chart to a cluster, and remove them.

The values of the installation are in the ConfigMap ``NAME-installation``, so an upgrade without
``--values`` uses them again. The values contain no secrets: they name Secrets.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.cli.kube.api.cluster import Cluster, Object
from keyhouse.cli.kube.nodes import NodeReport, report, requirement_of, vendor_of
from keyhouse.cli.kube.rendering.chart import Release, chart
from keyhouse.cli.kube.rendering.functions import merge

_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_POLICY: Final = "MutatingAdmissionPolicy"

OWNED: Final = (
    # The configurations of the webhook first: without its pods, they refuse every labelled pod.
    (_ADMISSION, "MutatingWebhookConfiguration"),
    (_ADMISSION, "ValidatingWebhookConfiguration"),
    # The bindings before the policies: a policy without a binding has no effect, so no pod is
    # refused meanwhile.
    (_ADMISSION, "MutatingAdmissionPolicyBinding"),
    (_ADMISSION, _POLICY),
    (f"{_ADMISSION}beta1", "MutatingAdmissionPolicyBinding"),  # Kubernetes 1.34 and 1.35
    (f"{_ADMISSION}beta1", _POLICY),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"),
    (_ADMISSION, "ValidatingAdmissionPolicy"),
    ("networking.k8s.io/v1", "Ingress"),
    ("gateway.networking.k8s.io/v1", "TLSRoute"),
    ("monitoring.coreos.com/v1", "ServiceMonitor"),
    ("monitoring.coreos.com/v1", "PrometheusRule"),
    ("batch/v1", "CronJob"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("policy/v1", "PodDisruptionBudget"),
    ("v1", "Service"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("v1", "ConfigMap"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("v1", "ServiceAccount"),
)
"""The kinds of the chart, in the order of their removal. Claims of volumes are not among them."""

_KEEP: Final = "helm.sh/resource-policy"
Change = Literal["created", "changed", "unchanged", "deleted", "kept", "not checked"]


class Applied(msgspec.Struct, frozen=True):
    """An object of the chart by kind and name, and the change of this object in the cluster."""

    kind: str
    name: str
    change: Change


class InstallationPlan(msgspec.Struct, frozen=True):
    """The objects of an installation, the chart's values for these objects, and the nodes."""

    release: Release
    values: Mapping[str, Any]  # as given, with the findings of the cluster
    completed: Mapping[str, Any]  # with the defaults of the chart
    objects: Sequence[Object]
    nodes: Sequence[NodeReport]


def record_name(release: Release) -> str:
    """Return the name of the ConfigMap with the values of the installation ``release``."""
    return f"{full_name(release)}-installation"


def full_name(release: Release) -> str:
    """Return the name for objects of ``release``, by the rule ``keyhouse.name`` of the chart."""
    if "keyhouse" in release.name:
        return release.name[:50].removesuffix("-")
    return f"{release.name}-keyhouse"[:41].removesuffix("-")


def policy_name(release: Release) -> str:
    """Return the name for objects of ``release`` outside of namespaces, such as the policies."""
    return f"{full_name(release)}.{release.namespace}"


def selector(release: Release) -> str:
    """Return the label selector for all objects of ``release``."""
    return f"app.kubernetes.io/name=keyhouse,app.kubernetes.io/instance={release.name}"


def recorded_values(cluster: Cluster, release: Release) -> dict[str, Any] | None:
    """Return the recorded values of the installation ``release``; None without an installation."""
    found = cluster.get("v1", "ConfigMap", record_name(release), release.namespace)
    if found is None:
        return None
    values = msgspec.json.decode(found.get("data", {}).get("values.json", "{}"))
    return dict(values)


def plan(cluster: Cluster, release: Release, values: Mapping[str, Any]) -> InstallationPlan:
    """Return the objects of the installation ``release`` for the chart's ``values``.

    If ``values`` does not set the vendor of the device plugin for SGX, the vendor is that of the
    plugin on the nodes. If ``values`` does not set the injection for workloads, the injection is on
    in a cluster with admission policies for mutations.
    """
    found: dict[str, Any] = {}
    if not _sets(values, "injection", "enabled") and cluster.has(_ADMISSION, _POLICY):
        found["injection"] = {"enabled": True}
    nodes = cluster.list("v1", "Node")
    if _sets(values, "sgx", "enabled") and not _sets(values, "sgx", "vendor"):
        anything = msgspec.structs.replace(_requirement(values), resource="")
        vendor = vendor_of([report(node, anything) for node in nodes])
        if vendor:
            found["sgx"] = {"vendor": vendor}
    values = merge(values, found)
    completed = chart().completed(values)
    required = requirement_of(completed)
    return InstallationPlan(
        release,
        values,
        completed,
        chart().render(values, release),
        [report(node, required) for node in nodes],
    )


def _requirement(values: Mapping[str, Any]) -> Any:
    return requirement_of(chart().completed(values))


def require_node(planned: InstallationPlan) -> None:
    """Raise ``RefusedError`` if no node in ``planned`` can run the coordinator.

    A coordinator without special hardware needs no check: the scheduler finds a node.
    """
    is_special = bool(requirement_of(planned.completed).technology)
    if is_special and planned.nodes and all(each.reasons for each in planned.nodes):
        first = planned.nodes[0]
        raise RefusedError(
            f"none of the {len(planned.nodes)} nodes can run the coordinator; {first.name}:"
            f" {first.reasons[0]}",
            hint="list all reasons: keyhouse kube precheck; or pass --skip-precheck to install"
            " nevertheless",
        )


def apply(
    cluster: Cluster, planned: InstallationPlan, *, dry_run: bool, force: bool
) -> Iterator[Applied]:
    """Apply all objects of ``planned``, then delete objects of older charts; yield each change.

    ``dry_run``: the API server only checks the objects. ``force``: take over fields that a
    different program manages, such as helm.

    The API server checks the objects before the first change. So a conflict, an invalid value or a
    missing permission changes nothing. The check omits bindings of missing roles, and all objects
    if the namespace is missing.
    """
    release = planned.release
    _require_policies(cluster, planned)
    namespace = cluster.get("v1", "Namespace", release.namespace)
    if namespace is None:
        thing: Object = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": release.namespace},
        }
        cluster.apply(thing, "", dry_run=dry_run)
        yield Applied("Namespace", release.namespace, "created")
    objects = [*planned.objects, _record(planned)]
    if namespace is not None and not dry_run:
        for thing in objects:
            if not _lacks_role(cluster, thing, release.namespace):
                cluster.apply(thing, release.namespace, dry_run=True, force=force)
    for thing in objects:
        # The API server refuses objects of a missing namespace, even in a dry run.
        lacks = namespace is None and _is_namespaced(cluster, thing)
        if not dry_run or not (lacks or _lacks_role(cluster, thing, release.namespace)):
            yield _apply(cluster, thing, release.namespace, dry_run=dry_run, force=force)
        else:
            yield Applied(thing["kind"], thing["metadata"]["name"], "not checked")
    yield from _prune(cluster, planned, dry_run=dry_run)


def _require_policies(cluster: Cluster, planned: InstallationPlan) -> None:
    for thing in planned.objects:
        if thing["kind"] == _POLICY and not cluster.has(thing["apiVersion"], _POLICY):
            raise RefusedError(
                f"the cluster does not have {_POLICY} ({thing['apiVersion']}), which Kubernetes"
                " has since 1.36",
                hint="set injection.webhook.enabled to true, or injection.enabled to false",
            )


def _apply(
    cluster: Cluster, thing: Object, namespace: str, *, dry_run: bool, force: bool
) -> Applied:
    kind, name = thing["kind"], thing["metadata"]["name"]
    before = cluster.get(thing["apiVersion"], kind, name, namespace)
    after = cluster.apply(thing, namespace, dry_run=dry_run, force=force)
    change: Change = "created"
    if before is not None:
        change = "unchanged" if _content(before) == _content(after) else "changed"
    return Applied(kind, name, change)


def _content(thing: Object) -> Object:
    """Return the object ``thing`` without the fields that the API server changes by itself."""
    volatile = {"managedFields", "resourceVersion", "generation"}
    metadata = {name: each for name, each in thing["metadata"].items() if name not in volatile}
    return {
        **{name: each for name, each in thing.items() if name != "status"},
        "metadata": metadata,
    }


def _is_namespaced(cluster: Cluster, thing: Object) -> bool:
    return cluster.resource(thing["apiVersion"], thing["kind"]).namespaced


def _lacks_role(cluster: Cluster, thing: Object, namespace: str) -> bool:
    """Return whether ``thing`` is a binding of a role that is missing in the cluster.

    The API server refuses such a binding in a dry run: it cannot compare the permissions of the
    role with the permissions of the user.
    """
    role = thing.get("roleRef")
    if role is None:
        return False
    return cluster.get(thing["apiVersion"], role["kind"], role["name"], namespace) is None


def _record(planned: InstallationPlan) -> Object:
    labels = {
        "app.kubernetes.io/name": "keyhouse",
        "app.kubernetes.io/instance": planned.release.name,
        "app.kubernetes.io/managed-by": planned.release.service,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": record_name(planned.release), "labels": labels},
        "data": {
            "version": chart().version,
            "values.json": msgspec.json.encode(planned.values, order="sorted").decode(),
        },
    }


def _prune(cluster: Cluster, planned: InstallationPlan, *, dry_run: bool) -> Iterator[Applied]:
    wanted = {(each["kind"], each["metadata"]["name"]) for each in planned.objects}
    wanted.add(("ConfigMap", record_name(planned.release)))
    for thing in installed(cluster, planned.release):
        kind, name = thing["kind"], thing["metadata"]["name"]
        if (kind, name) in wanted:
            continue
        if not dry_run:
            cluster.delete(thing["apiVersion"], kind, name, planned.release.namespace)
        yield Applied(kind, name, "deleted")


def installed(cluster: Cluster, release: Release) -> Iterator[Object]:
    """Yield the objects of the installation ``release``, in the order of their removal.

    Each object is yielded once, even if the cluster serves its kind in two versions.
    """
    seen = set()
    for version, kind in OWNED:
        if not cluster.has(version, kind):
            continue
        inside = cluster.resource(version, kind).namespaced
        for thing in cluster.list(
            version, kind, release.namespace if inside else "", selector(release)
        ):
            name = thing["metadata"]["name"]
            # Another namespace may have an installation with the same name.
            is_own = inside or name == policy_name(release)
            if is_own and (kind, name) not in seen:
                seen.add((kind, name))
                yield thing


def uninstall(
    cluster: Cluster, release: Release, *, delete_state: bool, dry_run: bool = False
) -> Iterator[Applied]:
    """Delete the installation ``release``, and yield each change.

    The volume claims with the state stay, unless ``delete_state`` is set. Claims with backups stay
    in any case. With ``dry_run``, nothing is deleted.
    """
    for thing in list(installed(cluster, release)):
        kind, name = thing["kind"], thing["metadata"]["name"]
        if not dry_run:
            cluster.delete(thing["apiVersion"], kind, name, release.namespace)
        yield Applied(kind, name, "deleted")
    for claim in cluster.list("v1", "PersistentVolumeClaim", release.namespace, selector(release)):
        name = claim["metadata"]["name"]
        is_backup = _KEEP in claim["metadata"].get("annotations", {})
        if delete_state and not is_backup:
            if not dry_run:
                cluster.delete("v1", "PersistentVolumeClaim", name, release.namespace)
            yield Applied("PersistentVolumeClaim", name, "deleted")
        else:
            yield Applied("PersistentVolumeClaim", name, "kept")


def _sets(values: Mapping[str, Any], *path: str) -> bool:
    """Return whether the chart's ``values`` contain the member at ``path``.

    ``path`` has the names of the members on the way, beginning with a member of ``values``.
    """
    place: Any = values
    for name in path:
        if not isinstance(place, Mapping) or name not in place:
            return False
        place = place[name]
    return True
