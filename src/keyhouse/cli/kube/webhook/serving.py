"""Run the webhook until a signal: the listener, and the rotation of its certificate."""

import os
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from keyhouse.base.errors import KeyhouseError
from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.api.kubeconfig import read_access
from keyhouse.cli.kube.installation import full_name, policy_name
from keyhouse.cli.kube.rendering.chart import Release
from keyhouse.cli.kube.webhook.bundle import publish
from keyhouse.cli.kube.webhook.certificate import LIFETIME, Rotation, present_time
from keyhouse.cli.kube.webhook.listener import WebhookListener
from keyhouse.cli.kube.webhook.policies import Policies
from keyhouse.cli.kube.webhook.review import Reviewer

_STEP: Final = 60.0  # seconds between two steps of the rotation
_RETRY: Final = 2.0  # seconds after a failed step
_FRESH: Final = 300.0
"""Seconds until the credentials are read again. The kubelet renews the token of a pod each hour."""

Event = dict[str, Any]


class _Access:
    """A connection to the API server. After 5 minutes, the credentials are read again.

    ``context`` is a context of the kubeconfig; "" means the current context.
    """

    def __init__(self, context: str) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._since = 0.0
        self._cluster: Cluster | None = None
        self._former: Cluster | None = None

    def cluster(self) -> Cluster:
        """Return the connection with present credentials. Raises ``KubeconfigError``."""
        with self._lock:
            if self._cluster is None or time.monotonic() - self._since > _FRESH:
                # Running requests may still use the connection of before. They end until the next.
                if self._former is not None:
                    self._former.close()
                self._former = self._cluster
                self._cluster = Cluster(read_access(self._context, os.environ))
                self._since = time.monotonic()
            return self._cluster


class Webhook:
    """The webhook of the installation ``release``, on ``address`` (host and port).

    ``cluster`` returns the connection to the API server. Each certificate of the webhook is valid
    for ``lifetime``.
    """

    def __init__(
        self,
        release: Release,
        policies: Policies,
        cluster: Callable[[], Cluster],
        address: tuple[str, int],
        lifetime: timedelta = LIFETIME,
    ) -> None:
        self._release = release
        self._cluster = cluster
        name = f"{full_name(release)}-webhook.{release.namespace}.svc"
        self.rotation: Final = Rotation(name, self._publish, lifetime)
        self.listener: Final = WebhookListener(
            address, self._context, Reviewer(policies, self._marbles)
        )

    def _context(self) -> ssl.SSLContext | None:
        current = self.rotation.current
        return None if current is None else current.context

    def _marbles(self) -> dict[str, Any] | None:
        name = f"{full_name(self._release)}-marbles"
        # Read for each review: a review of a label is rare, and a stale list refuses new marbles.
        return self._cluster().get("v1", "ConfigMap", name, self._release.namespace)

    def _publish(self, certificates: Sequence[bytes], now: datetime) -> None:
        publish(self._cluster(), policy_name(self._release), certificates, now)

    def run(self, stop: threading.Event, report: Callable[[Event], None]) -> None:
        """Serve until ``stop`` is set. ``report`` receives each event for the user, as an object.

        The same failure several times in succession is reported once.
        """
        serving = threading.Thread(target=self.listener.serve_forever, name="listener")
        serving.start()
        failure = ""
        try:
            while not stop.is_set():
                try:
                    is_new = self.rotation.step(present_time())
                except KeyhouseError as error:
                    if str(error) != failure:
                        report({"event": "the certificate is not published", "reason": str(error)})
                    failure = str(error)
                    stop.wait(_RETRY)
                    continue
                failure = ""
                if is_new and self.rotation.current is not None:
                    until = self.rotation.current.until.isoformat(timespec="seconds")
                    report({"event": "a new certificate is in use", "until": until})
                stop.wait(_STEP)
        finally:
            self.listener.shutdown()
            serving.join()
            self.listener.server_close()


def run_webhook(
    context: str,
    release: Release,
    policies: Policies,
    address: tuple[str, int],
    stop: threading.Event,
    report: Callable[[Event], None],
) -> None:
    """Run the webhook of the installation ``release`` until ``stop`` is set.

    ``context`` is a context of the kubeconfig, or "". ``address`` has host and port to listen on.
    ``report`` receives each event for the user. Raises ``AddressUnusableError``, and
    ``KubeconfigError`` without access to a cluster.
    """
    access = _Access(context)
    access.cluster()
    Webhook(release, policies, access.cluster, address).run(stop, report)
