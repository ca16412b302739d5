"""Find the parts of an installation that are missing or not ready, with the time of the change."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from keyhouse.cli.kube.api.cluster import Cluster, Object
from keyhouse.cli.kube.installation import full_name, selector
from keyhouse.cli.kube.rendering.chart import Release

_CLAIM: Final = "PersistentVolumeClaim"
_DELETED: Final = "wait for the end of the deletion, then run keyhouse kube upgrade"
_LOGS: Final = "read the logs of the pods with kubectl logs"


class Finding(msgspec.Struct, frozen=True):
    """A part that is missing or not ready. ``since`` is a time of the cluster, or "" if unknown."""

    part: str
    problem: str
    since: str = ""
    hint: str = ""


def findings(cluster: Cluster, release: Release, objects: Sequence[Object]) -> list[Finding]:
    """Return the problems of ``objects``, and of the pods of the coordinator and of the webhook.

    ``objects`` are the objects of the chart for the installation ``release``.
    """
    made = [*_missing(cluster, release, objects)]
    kept = cluster.get("apps/v1", "StatefulSet", full_name(release), release.namespace)
    if kept is not None:
        made += _of_set(cluster, release, kept)
    for name in [each["metadata"]["name"] for each in objects if each["kind"] == "Deployment"]:
        webhook = cluster.get("apps/v1", "Deployment", name, release.namespace)
        if webhook is not None:
            made += _of_webhook(webhook)
    return made


def is_ready(kept: Object | None) -> bool:
    """Return whether all pods of a StatefulSet are ready, and have its newest specification.

    ``kept`` is the StatefulSet in the cluster. The result is False for None, a missing
    StatefulSet.
    """
    if kept is None:
        return False
    status, wanted = kept.get("status", {}), kept["spec"]["replicas"]
    return bool(
        status.get("observedGeneration", 0) >= kept["metadata"]["generation"]
        and status.get("readyReplicas", 0) == wanted
        and status.get("updatedReplicas", 0) == wanted
    )


def _missing(cluster: Cluster, release: Release, objects: Sequence[Object]) -> Iterator[Finding]:
    for thing in objects:
        kind, name = thing["kind"], thing["metadata"]["name"]
        if not cluster.has(thing["apiVersion"], kind):
            yield Finding(
                f"{kind} {name}",
                f"the cluster does not have {kind} ({thing['apiVersion']})",
                hint="install the definition of this kind, or change the value that needs the kind",
            )
            continue
        found = cluster.get(thing["apiVersion"], kind, name, release.namespace)
        if found is None:
            yield Finding(
                f"{kind} {name}", "is missing", hint="create the object: keyhouse kube upgrade"
            )
        elif "deletionTimestamp" in found["metadata"]:
            since = found["metadata"]["deletionTimestamp"]
            yield Finding(f"{kind} {name}", "is being deleted", since, _DELETED)


def _of_set(cluster: Cluster, release: Release, kept: Object) -> Iterator[Finding]:
    wanted, name = kept["spec"]["replicas"], kept["metadata"]["name"]
    ready = kept.get("status", {}).get("readyReplicas", 0)
    pods = cluster.list("v1", "Pod", release.namespace, selector(release))
    if ready < wanted:
        times = [_ready_since(pod) for pod in pods if not _is_ready(pod)]
        since = min((time for time in times if time), default=kept["metadata"]["creationTimestamp"])
        yield Finding(f"StatefulSet {name}", f"{ready} of {wanted} pods are ready", since, _LOGS)
    for pod in pods:
        yield from _of_pod(pod)
    for claim in cluster.list("v1", _CLAIM, release.namespace, selector(release)):
        if claim.get("status", {}).get("phase") != "Bound":
            metadata = claim["metadata"]
            yield Finding(
                f"{_CLAIM} {metadata['name']}",
                f"is {claim.get('status', {}).get('phase', 'Pending')}, expected Bound",
                metadata["creationTimestamp"],
                "read the reason with kubectl describe, or set persistence.storageClass",
            )


def _of_webhook(webhook: Object) -> Iterator[Finding]:
    wanted, ready = webhook["spec"]["replicas"], webhook.get("status", {}).get("readyReplicas", 0)
    if ready < wanted:
        times = [
            each.get("lastTransitionTime") or ""
            for each in webhook.get("status", {}).get("conditions") or ()
            if each["type"] == "Available"
        ]
        yield Finding(
            f"Deployment {webhook['metadata']['name']}",
            f"{ready} of {wanted} pods are ready",
            times[0] if times else webhook["metadata"]["creationTimestamp"],
            "read the logs of the pods with kubectl logs; until a pod is ready, the API server"
            " refuses pods with a label of Keyhouse",
        )


def _of_pod(pod: Object) -> Iterator[Finding]:
    part, status = f"Pod {pod['metadata']['name']}", pod.get("status", {})
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield Finding(
                part,
                f"is not scheduled: {condition.get('message', condition.get('reason', ''))}",
                condition.get("lastTransitionTime") or "",
                "list the reasons of each node: keyhouse kube precheck",
            )
    for container in (*_statuses(status, "init"), *_statuses(status, "")):
        waiting = container.get("state", {}).get("waiting")
        if waiting is not None and waiting.get("reason") != "PodInitializing":
            yield Finding(
                f"{part}, container {container['name']}",
                f"{waiting.get('reason', 'waits')}: {waiting.get('message', 'no message')}",
                _ready_since(pod),
                "read the events of the pod with kubectl describe",
            )
    if not _is_ready(pod) and not status.get("conditions"):
        since = pod["metadata"]["creationTimestamp"]
        yield Finding(part, "has no state yet", since, "wait, then repeat the command")


def _statuses(status: Mapping[str, Any], kind: str) -> Sequence[Any]:
    name = "initContainerStatuses" if kind else "containerStatuses"
    return status.get(name) or ()


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _ready_since(pod: Object) -> str:
    """Return the time when ``pod`` became ready or unready last, else the time of its creation."""
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "Ready":
            return condition.get("lastTransitionTime") or ""
    return str(pod["metadata"]["creationTimestamp"])
