"""Commands to start a trial's coordinator: in a signed enclave, or on the simulated platform."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keyhouse.attestation import Collateral
from keyhouse.cli.dev.deployment import trust_in
from keyhouse.cli.dev.folder import Folder
from keyhouse.cli.doctor.hardware.enclave import TrialEnclave
from keyhouse.cli.doctor.hardware.process import Launch

if TYPE_CHECKING:
    from keyhouse.client import Trust

_ANY_PORT: Final = "127.0.0.1:0"
_OWN: Final = "KEYHOUSE_"
_SETTINGS: Final = {
    "KEYHOUSE_CLIENT_ADDR": _ANY_PORT,
    "KEYHOUSE_MESH_ADDR": _ANY_PORT,
    "KEYHOUSE_LOG_FORMAT": "json",
    "KEYHOUSE_LOG_LEVEL": "info",
}


def in_simulation(scratch: Path) -> Launch:
    """Return how to start and how to verify a coordinator on the simulated platform.

    The folder ``scratch`` receives the files of the coordinator.
    """
    folder = Folder(scratch)
    words = (sys.executable, "-I", "-B", "-m", "keyhouse.server", "--platform", "simulation")
    return Launch(
        platform="simulation",
        words=(*words, "--data-dir", str(folder.state)),
        state=folder.state,
        environment=environment(),
        trust=lambda: trust_in(folder),
    )


def in_enclave(
    enclave: TrialEnclave, folder: Path, collateral: Collateral | Callable[[bytes], Collateral]
) -> Launch:
    """Return how to start the coordinator in ``enclave``, and to verify it under Intel's root.

    ``folder`` contains the enclave's files. ``collateral`` is Intel's collateral, or a function to
    fetch the collateral for a quote.
    """
    identity = enclave.identity()

    def trust() -> "Trust":
        from keyhouse.client import Trust

        return Trust(expected=identity, collateral=collateral)

    return Launch(
        platform="gramine",
        words=enclave.words,
        state=enclave.state,
        folder=folder,
        environment=environment(),
        trust=trust,
    )


def environment() -> dict[str, str]:
    """Return the environment variables for the coordinator of a trial.

    The result has the variables of this process, except the variables of Keyhouse. A variable of
    Keyhouse could name the database or the manifest of a real deployment.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    return kept | _SETTINGS
