"""For teams that test their workloads: a coordinator in simulation, with a clock to move.

It is a real coordinator, over a real state directory, behind its real TLS listeners, in a thread of
the test; only the platform and the clock are not real. So what is refused here is refused in
production, by the same code. With pytest there is a fixture, ``keyhouse_deployment``; without it,
``Deployment`` is a context manager.
"""

from keyhouse.attestation import TcbStatus
from keyhouse.launcher import ActivationRefusedError
from keyhouse.testing.coordinator import MovableClock
from keyhouse.testing.deployment import Deployment, DeploymentUser, make_user
from keyhouse.testing.identities import (
    ConfidentialVm,
    Enclave,
    SnpVm,
    confidential_vm,
    enclave,
    snp_vm,
)
from keyhouse.testing.marble import Marble

__all__ = [
    "ActivationRefusedError",
    "ConfidentialVm",
    "Deployment",
    "DeploymentUser",
    "Enclave",
    "Marble",
    "MovableClock",
    "SnpVm",
    "TcbStatus",
    "confidential_vm",
    "enclave",
    "make_user",
    "snp_vm",
]
