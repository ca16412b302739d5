"""Verify the coordinator in the cluster, and read its root and the names of its marbles."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from keyhouse.base.errors import RefusedError
from keyhouse.base.pem import certificate_pem
from keyhouse.cli.kube.api.cluster import Cluster
from keyhouse.cli.kube.options import ReachOptions
from keyhouse.cli.kube.reach import reached
from keyhouse.cli.kube.rendering.chart import Release
from keyhouse.cli.kube.synchronised import Marbles
from keyhouse.cli.options.connect import verify_target
from keyhouse.wire.json_parser import read_json

if TYPE_CHECKING:
    from keyhouse.client import TrustedCoordinator


class VerifiedCoordinator(NamedTuple):
    """A verified coordinator, and its address."""

    address: str
    proven: "TrustedCoordinator"

    @property
    def root_pem(self) -> str:
        """The root certificate of the deployment, PEM."""
        return certificate_pem(self.proven.root_der)


@contextmanager
def verified(
    cluster: Cluster, release: Release, reach: ReachOptions
) -> Iterator[VerifiedCoordinator]:
    """Verify the coordinator of the installation ``release``; yield it during the block.

    ``reach``: the options for its address and its verification. Raises ``WrongUsageError``,
    ``NoWayError``, ``TrustError`` and ``UnreachableError``.
    """
    reach.require_identity()
    with reached(cluster, release, reach.address) as address:
        yield VerifiedCoordinator(address, verify_target(reach.target(address)))


def marbles_of(verified: VerifiedCoordinator, reach: ReachOptions) -> Marbles:
    """Return the names of the marbles in the manifest in force of the coordinator ``verified``.

    ``reach`` has the timeouts. Raises ``RefusedError`` if the section ``Marbles`` is not an object,
    and the errors of ``Coordinator.manifest``.
    """
    from keyhouse.client import Coordinator

    timeouts = reach.target(verified.address).timeouts()
    with Coordinator(verified.proven, timeout=timeouts) as coordinator:
        in_force = coordinator.manifest()
    tree = read_json(in_force.manifest)
    sections = tree if isinstance(tree, dict) else {}
    names: Any = next((each for name, each in sections.items() if name.lower() == "marbles"), {})
    if not isinstance(names, dict):
        raise RefusedError(
            "the section Marbles of the manifest in force is not an object",
            hint="update the manifest: keyhouse manifest update apply",
        )
    return Marbles(in_force.fingerprint, tuple(sorted(names)))
