"""Whom a launcher trusts, by its settings: a deployment, a proof, both, or whoever answers."""

import hmac
from collections.abc import Callable
from pathlib import Path

from keyhouse.cli.run.file import read_small_file
from keyhouse.cli.run.settings import RunSettings
from keyhouse.launcher import Anchor, CoordinatorNotTrusted, read_anchor, read_mesh_address
from keyhouse.wire.address import CLIENT_API_PORT, Address

__all__ = ["anchors"]

Anchors = Callable[[float], Anchor | None]
"""Gives the anchor for an attempt, within so many seconds."""


def anchors(settings: RunSettings) -> Anchors | None:
    """Return what gives the anchor of each attempt. None: nobody is verified.

    With an attestation file the quote is verified anew for each attempt: a coordinator that waits
    for its recovery has another root than afterwards.

    Raises ``LaunchRefused`` and ``CoordinatorNotTrusted`` for files that cannot be used. What is
    returned raises the client's ``TrustFailed`` and ``Unreachable``.
    """
    pinned = _pinned(settings.root_certificate)
    if settings.attestation is not None:
        return lambda seconds: _proven(settings, pinned, seconds)
    return (lambda _seconds: pinned) if pinned is not None else None


def _pinned(path: Path | None) -> Anchor | None:
    return None if path is None else read_anchor(read_small_file(path), str(path))


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
    )
    proven = trusted(target, timeout=seconds)
    found = Anchor(proven.root_der, proven.intermediate_der)
    if pinned is not None and not _same(pinned, found):
        raise CoordinatorNotTrusted(
            "the coordinator is not trusted: it proves what it is, and is another deployment than"
            f" that of {settings.root_certificate}",
            hint="a deployment that was made anew has a new root: bring the file up to date",
        )
    return found


def _same(pinned: Anchor, found: Anchor) -> bool:
    same_root = hmac.compare_digest(pinned.root, found.root)
    return same_root and pinned.intermediate in {None, found.intermediate}


def _beside(coordinator: str) -> str:
    """Return the Client API's usual place at the host of the workload API."""
    return str(Address(read_mesh_address(coordinator).host, CLIENT_API_PORT))
