"""For teams that test their workloads: a coordinator in simulation, with a movable clock.

The coordinator is real, with a real state directory and its real TLS listeners, in a thread of the
test. Only the platform and the clock are simulated. So a refusal in a test is a refusal in
production, by the same code. With pytest, use the fixture ``keyhouse_deployment``. Without pytest,
use ``Deployment`` as a context manager.
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
