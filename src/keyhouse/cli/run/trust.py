"""Identities by a launcher's flags: the coordinator's, and a simulated workload's."""

import hmac
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keyhouse.base.named_files import read_named_file
from keyhouse.cli.run.settings import RunSettings
from keyhouse.launcher import (
    Anchor,
    CoordinatorNotTrustedError,
    LaunchRefusedError,
    read_anchor,
    read_mesh_address,
)
from keyhouse.wire.address import CLIENT_API_PORT, Address

if TYPE_CHECKING:
    from keyhouse.attestation import Measurements
    from keyhouse.wire.vm_identity import VmIdentity

_LARGEST: Final = 65_536  # bytes
_UNSET: Final = bytes(32)


Anchors = Callable[[float], Anchor | None]
"""Gives the anchor for an attempt, within so many seconds."""


def anchors(settings: RunSettings) -> Anchors | None:
    """Return a function that gives the anchor of each attempt. None: ``--unverified-coordinator``.

    With an attestation file the quote is verified again for each attempt: a coordinator has another
    root while it waits for its recovery.

    Raises ``LaunchRefusedError`` and ``CoordinatorNotTrustedError`` for files that cannot be used.
    What is returned raises the client's ``TrustError`` and ``UnreachableError``.
    """
    if settings.unverified_coordinator:
        return None
    pinned = _pinned(settings.root_certificate)
    if settings.attestation is not None:
        return lambda seconds: _proven(settings, pinned, seconds)
    assert pinned is not None  # noqa: S101 the settings require one of the three
    return lambda _seconds: pinned


def _pinned(path: Path | None) -> Anchor | None:
    return (
        None
        if path is None
        else read_anchor(read_named_file(path, _LARGEST, LaunchRefusedError), str(path))
    )


def _proven(settings: RunSettings, pinned: Anchor | None, seconds: float) -> Anchor:
    from keyhouse.cli.options.connect import trusted
    from keyhouse.cli.options.target import Target

    assert settings.attestation is not None  # noqa: S101 for mypy: the caller has checked
    target = Target(
        host=settings.client_api or _beside(settings.coordinator),
        context="none",
        attestation=settings.attestation,
        collateral=settings.collateral,
        simulation_root=settings.simulation_root,
        memory="none",  # a workload's file system remembers nothing that its host could not undo
        pccs=settings.pccs,
        pccs_ca=settings.pccs_ca,
        first_manifest=settings.first_manifest,
    )
    proven = trusted(target, timeout=seconds)
    found = Anchor(proven.root_der, proven.intermediate_der)
    if pinned is not None and not _same(pinned, found):
        raise CoordinatorNotTrustedError(
            "the coordinator is not trusted: it proves what it is, and is another deployment than"
            f" that of {settings.root_certificate}",
            hint="a new deployment has a new root: update the file",
        )
    return found


def _same(pinned: Anchor, found: Anchor) -> bool:
    same_root = hmac.compare_digest(pinned.root, found.root)
    return same_root and pinned.intermediate in {None, found.intermediate}


def _beside(coordinator: str) -> str:
    """Return the Client API's usual place at the host of the workload API."""
    return str(Address(read_mesh_address(coordinator).host, CLIENT_API_PORT))


def simulated_identity(path: Path | None) -> "Measurements | VmIdentity | None":
    """Return what the attestation file ``path`` names: an enclave or a confidential VM.

    None: the coordinator. Fields of an enclave that the file leaves out are zero. Raises
    ``LaunchRefusedError`` if it cannot be read, and ``ConfigurationRefusedError`` if any enclave
    would match it.
    """
    from keyhouse.attestation import Measurements, read_expected_identity

    if path is None:
        return None
    found = read_expected_identity(read_named_file(path, _LARGEST, LaunchRefusedError))
    if found.vm is not None:
        return found.vm
    return Measurements(
        unique_id=found.unique_id or _UNSET,
        signer_id=found.signer_id or _UNSET,
        product_id=found.product_id,
        security_version=found.security_version,
    )
