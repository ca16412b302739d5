"""Find an address of the coordinator from outside of the cluster.

TLS ends at the coordinator, and the caller verifies the coordinator's quote. So load balancers and
forwarded ports on the way need no trust.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from keyhouse.base.errors import UnavailableError
from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.installation import full_name
from keyhouse.cli.kube.rendering.chart import Release

_FORWARDING: Final = "Forwarding from 127.0.0.1:"
_BY_HAND: Final = "pass --address with an address of the Client API that this machine can reach"


class NoWayError(UnavailableError):
    """This machine cannot reach the coordinator: no load balancer, and no port by kubectl."""

    code = "no-way"


@contextmanager
def reached(cluster: Cluster, release: Release, address: str) -> Iterator[str]:
    """Yield an address (HOST:PORT) of the coordinator of ``release`` for this machine.

    This is ``address`` if not "", else the address of the Service's load balancer, else a local
    port that kubectl forwards during the block. Raises ``NoWayError``.
    """
    found = address or _load_balancer(cluster, release)
    if found:
        yield found
        return
    with _forwarded(cluster, release) as port:
        yield f"127.0.0.1:{port}"


def _load_balancer(cluster: Cluster, release: Release) -> str:
    service = cluster.get("v1", "Service", full_name(release), release.namespace)
    if service is None:
        return ""
    ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    port = next(each["port"] for each in service["spec"]["ports"] if each["name"] == "client")
    for each in ingress:
        host = each.get("hostname") or each.get("ip") or ""
        if host:
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return ""


@contextmanager
def _forwarded(cluster: Cluster, release: Release) -> Iterator[int]:
    """Yield a local port that kubectl forwards to the coordinator's Client API during the block.

    Raises ``NoWayError``.
    """
    program = shutil.which("kubectl")
    if program is None:
        raise NoWayError(
            "no load balancer has an address, and kubectl is not on PATH", hint=_BY_HAND
        )
    words = [program, "--namespace", release.namespace]
    if cluster.access.context:
        words += ["--context", cluster.access.context]
    words += ["port-forward", f"service/{full_name(release)}", ":client"]
    with subprocess.Popen(  # noqa: S603 fixed words, and names that the API server has accepted
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            first = process.stdout.readline() if process.stdout is not None else ""
            if not first.startswith(_FORWARDING):
                raise NoWayError("kubectl port-forward does not reach the pod", hint=_BY_HAND)
            yield int(first.removeprefix(_FORWARDING).split()[0])
        finally:
            process.terminate()
