"""The webhook of an installation, with the arguments and the address of the chart."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.webhook.bundle import KINDS, VERSION
from support.cluster.server import KubernetesServer
from support.process.server import PATIENCE
from support.process.start import Started, start

__all__ = ["address_of", "has_bundle", "running_webhook", "token_of"]

_NAME: Final = "keyhouse-webhook"


def token_of(admin: Cluster, namespace: str, account: str) -> str:
    """Return a token of a service account, as a kubelet requests tokens for a pod."""
    path = admin.resource("v1", "ServiceAccount").path(namespace, account)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = admin.request("POST", f"{path}/token", account, body=body)
    return str(made["status"]["token"])


def address_of(admin: Cluster, namespace: str) -> tuple[str, int]:
    """Return the loopback address and the port of the Service."""
    service = admin.get("v1", "Service", _NAME, namespace)
    assert service is not None
    return service["spec"]["clusterIP"], service["spec"]["ports"][0]["port"]


def has_bundle(admin: Cluster, namespace: str) -> bool:
    """Return whether both webhook configurations have certificates."""
    found = [admin.get(VERSION, kind, f"keyhouse.{namespace}") for kind in KINDS]
    return all(
        each is not None and "caBundle" in each["webhooks"][0]["clientConfig"] for each in found
    )


@contextmanager
def running_webhook(
    server: KubernetesServer, namespace: str, folder: Path, host: str = ""
) -> Iterator[Started]:
    """Run the command of the Deployment with the token of its account; yield the process.

    The process has published a certificate. ``host`` replaces the address of the Service.
    """
    admin = server.cluster()
    deployment = admin.get("apps/v1", "Deployment", _NAME, namespace)
    policies = admin.get("v1", "ConfigMap", _NAME, namespace)
    assert deployment is not None
    assert policies is not None
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    file = folder / "policies.yaml"
    file.write_text(policies["data"]["policies.yaml"])
    address = address_of(admin, namespace)
    here = {"--policies": str(file), "--listen": f"{host or address[0]}:{address[1]}"}
    words = []
    for word in container["args"]:
        name, mark, _ = word.partition("=")
        words.append(f"{name}={here[name]}" if mark and name in here else word)
    token = token_of(admin, namespace, pod["serviceAccountName"])
    kubeconfig = server.kubeconfig(token, f"webhook-{namespace}")
    with (folder / "webhook.log").open("wb") as log:
        environment = {"KUBECONFIG": str(kubeconfig)}
        process = start([*words, "--json"], output=log, errors=log, environment=environment)
        try:
            _await_events(folder / "webhook.log", process)
            yield process
        finally:
            process.kill()
            process.wait()


def _await_events(log: Path, process: Started) -> None:
    """Wait until the log reports the first certificate of the process."""
    end = time.monotonic() + PATIENCE
    while True:
        events: list[dict[str, Any]] = []
        for line in log.read_text().splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                raise AssertionError(log.read_text()) from None
        if any(each.get("event") == "a new certificate is in use" for each in events):
            return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)
