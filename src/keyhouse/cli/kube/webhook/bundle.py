"""Publish the certificates of the webhook in its two configurations, by server-side apply.

The API server accepts only the certificates in the bundle of a configuration.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from keyhouse.base.errors import UnavailableError
from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.errors import CONFLICT, ClusterRefusedError
from keyhouse.cli.kube.webhook.certificate import unexpired

VERSION: Final = "admissionregistration.k8s.io/v1"
KINDS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_MANAGER: Final = "keyhouse-webhook"
"""The manager of the bundle. An upgrade has another manager, so an upgrade never removes it."""

_LARGEST: Final = 50
"""Certificates of a bundle. A process that restarts in a loop leaves one at each start.

A process whose certificate was dropped publishes it again at its next step.
"""

_ATTEMPTS: Final = 10  # writes of several processes at the same time


class ConfigurationMissingError(UnavailableError):
    """The cluster has no configuration of the webhook."""

    code = "configuration-missing"


def publish(cluster: Cluster, name: str, own: Sequence[bytes], now: datetime) -> None:
    """Add the certificates ``own`` (PEM) of this process to both configurations ``name``.

    Certificates that have expired at the time ``now`` are removed. Raises
    ``ConfigurationMissingError``, ``ClusterRefusedError`` and ``ClusterUnreachableError``.
    """
    for kind in KINDS:
        _publish_in(cluster, kind, name, own, now)


def _publish_in(
    cluster: Cluster, kind: str, name: str, own: Sequence[bytes], now: datetime
) -> None:
    for attempt in range(_ATTEMPTS):
        found = cluster.get(VERSION, kind, name)
        if found is None:
            raise ConfigurationMissingError(
                f"the cluster has no {kind} {name}", hint="create the object: keyhouse kube upgrade"
            )
        change = _change(found, own, now)
        if change is None:
            return
        try:
            cluster.apply(change, "", force=True, manager=_MANAGER)
        except ClusterRefusedError as error:
            # Another process has written meanwhile: the resource version has changed.
            if error.status != CONFLICT or attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _change(found: dict[str, Any], own: Sequence[bytes], now: datetime) -> dict[str, Any] | None:
    """Return the change of the webhook configuration ``found``, as an object to apply.

    The change adds the certificates ``own`` to the bundles, and removes certificates that have
    expired at the time ``now``. None: the bundles need no change.
    """
    changed, webhooks = False, []
    for each in found.get("webhooks") or ():
        before = b64decode(each["clientConfig"].get("caBundle", ""))
        others = [pem for pem in unexpired(before, now) if pem not in own]
        after = b"".join([*others, *own][-_LARGEST:])
        changed |= after != before
        bundle = b64encode(after).decode("ascii")
        webhooks.append({"name": each["name"], "clientConfig": {"caBundle": bundle}})
    if not changed:
        return None
    metadata = found["metadata"]
    return {
        "apiVersion": VERSION,
        "kind": found["kind"],
        "metadata": {"name": metadata["name"], "resourceVersion": metadata["resourceVersion"]},
        "webhooks": webhooks,
    }
