"""What a command needs to know before it may trust a coordinator: options, files, one function."""

from pathlib import Path
from typing import Annotated

import typer

from keyhouse.attestation import Collateral, read_collateral, read_expected_identity
from keyhouse.cli.memory_option import memory_of
from keyhouse.cli.pccs_options import from_pccs, maker_root
from keyhouse.cli.talk import read_file
from keyhouse.client import (
    AnswerUnreadable,
    CallRefused,
    CollateralFor,
    TrustedCoordinator,
    TrustFailed,
    verify_coordinator,
)
from keyhouse.wire.errors import Refused

__all__ = ["AttestationFile", "CollateralFile", "HostArgument", "SimulationRoot", "trusted"]

HostArgument = Annotated[
    str, typer.Argument(help="address of the Client API: HOST or HOST:PORT", metavar="HOST")
]
AttestationFile = Annotated[
    Path, typer.Option("--attestation", help="who the coordinator must be: an attestation file")
]
CollateralFile = Annotated[
    Path | None,
    typer.Option(
        "--collateral",
        help="what verifies its quote: a bundle file (default with --simulation-root:"
        " collateral.json beside it)",
    ),
]
SimulationRoot = Annotated[
    Path | None,
    typer.Option(
        "--simulation-root",
        help="trust quotes of a SIMULATED platform under this root certificate (PEM);"
        " proves nothing about hardware",
    ),
]


def trusted(
    host: str,
    attestation: Path,
    collateral: Path | None,
    simulation_root: Path | None,
    memory: str,
    *,
    pccs: str = "",
    pccs_ca: Path | None = None,
    timeout: float = 30.0,
) -> TrustedCoordinator:
    """Return the coordinator at ``host`` after it proved who it is. There is no other way to one.

    By ``memory``, the option, it is the deployment that was there before, in no older state.
    ``timeout``, in seconds, is for its answer.

    Raises:
        TrustFailed, Unreachable, and refusals of files that cannot be used.
    """
    expected = read_expected_identity(read_file(str(attestation)))
    root = maker_root(simulation_root)
    bundle = _collateral(collateral, simulation_root, root, pccs, pccs_ca)
    remembering = memory_of(memory)
    try:
        return verify_coordinator(
            host,
            expected=expected,
            root_ca_der=root,
            collateral=bundle,
            memory=remembering,
            timeout=timeout,
        )
    except (AnswerUnreadable, CallRefused) as error:
        # Whoever answers at this address has not proven to be the coordinator.
        raise TrustFailed(
            f"the coordinator is not trusted: it gave no quote: {error.message}",
            hint="do not use it: it may be another machine that answers at this address",
        ) from error


def _collateral(
    collateral: Path | None,
    simulation_root: Path | None,
    root_ca: bytes,
    pccs: str,
    pccs_ca: Path | None,
) -> Collateral | CollateralFor:
    if pccs:
        if collateral is not None:
            raise Refused(
                "the collateral is to come from two places", hint="name --pccs or --collateral"
            )
        return from_pccs(pccs, pccs_ca, root_ca)
    if collateral is None:
        if simulation_root is None:
            raise Refused(
                "without collateral no quote can be verified",
                hint="name a PCCS or a bundle: --pccs or --collateral",
            )
        collateral = simulation_root.with_name("collateral.json")
    return read_collateral(read_file(str(collateral)))
