"""Reads the files that the launcher's flags name, for two purposes.

The first purpose is the trust in the coordinator: its root certificate, or its expected identity.
The second purpose is the identity of a workload on the simulated platform.
"""

import hmac
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keyhouse.base.errors import RefusedError
from keyhouse.base.log import write_error
from keyhouse.base.printable import printable
from keyhouse.base.process.flags import SettingRefusedError
from keyhouse.base.user_files import read_file, read_named_file
from keyhouse.launcher.activation import read_mesh_address
from keyhouse.launcher.errors import CoordinatorNotTrustedError, LaunchRefusedError
from keyhouse.launcher.settings import RunSettings
from keyhouse.launcher.trust import Anchor, read_anchor
from keyhouse.wire.address import Address
from keyhouse.wire.ports import CLIENT_API_PORT

if TYPE_CHECKING:
    from keyhouse.attestation import Collateral, ExpectedIdentity, Measurements
    from keyhouse.client.trust import CollateralFor, Trust, TrustedCoordinator
    from keyhouse.wire.kinds.identity import VmIdentity

_LARGEST: Final = 65_536  # bytes, chosen: a file with two certificates has about 2,000
_UNSET: Final = bytes(32)
_MOST_PROBLEMS: Final = 20  # problems of a file in one error, chosen: they fit on a screen


Anchors = Callable[[float], Anchor | None]
"""Return the anchor for an attempt, within the given number of seconds."""


def anchors(settings: RunSettings) -> Anchors | None:
    """Return a function that determines the trusted certificates, before each attempt to join.

    The argument of the function is its time limit in seconds; its result is an ``Anchor``. With
    ``--unverified-coordinator``, return None: then the launcher verifies no peer.

    With an attestation file, each attempt verifies a new quote, because the root may change: a
    coordinator in recovery mode has a temporary root.

    Raises ``LaunchRefusedError`` and ``CoordinatorNotTrustedError`` for unusable files. The
    returned function raises the client's ``TrustError`` and ``UnreachableError``.
    """
    if settings.unverified_coordinator:
        return None
    pinned = _pinned_anchor(settings.root_certificate)
    if settings.supervise and pinned is not None and pinned.intermediate is not None:
        raise LaunchRefusedError(
            f"{settings.root_certificate} has an intermediate certificate, which each update"
            " replaces",
            hint="with --supervise, name a file with the root alone: keyhouse certificate root",
        )
    if settings.attestation is not None:
        return lambda seconds: _proven_anchor(settings, pinned, seconds)
    assert pinned is not None  # noqa: S101 the settings require one of the three
    return lambda _seconds: pinned


def _pinned_anchor(path: Path | None) -> Anchor | None:
    return (
        None
        if path is None
        else read_anchor(read_named_file(path, _LARGEST, LaunchRefusedError), str(path))
    )


def _proven_anchor(settings: RunSettings, pinned: Anchor | None, seconds: float) -> Anchor:
    coordinator = _verified_coordinator(settings, seconds)
    anchor = Anchor(coordinator.root_der, coordinator.intermediate_der)
    if pinned is not None and not _same(pinned, anchor):
        raise CoordinatorNotTrustedError(
            "the coordinator is not trusted: its quote verifies, but its deployment is not that of"
            f" {settings.root_certificate}",
            hint="replace the file if you expect a new deployment: its root is new",
        )
    return anchor


def _verified_coordinator(settings: RunSettings, seconds: float) -> "TrustedCoordinator":
    """Return the coordinator after a quote proved its identity, within ``seconds``.

    The launcher remembers no states of the coordinator: the host could roll back such a memory
    together with the file system of the workload.
    """
    from keyhouse.client.errors import AnswerUnreadableError, CallRefusedError, TrustError
    from keyhouse.client.trust import verify

    host = settings.client_api or _default_client_api(settings.coordinator)
    trust = _trust(settings)
    try:
        return verify(host, trust, None, timeout=seconds)
    except (AnswerUnreadableError, CallRefusedError) as error:
        # The peer at this address has not proven to be the coordinator.
        raise TrustError(
            f"the coordinator is not trusted: it sent no quote: {error.message}"
        ) from error


def _trust(settings: RunSettings) -> "Trust":
    """Return the coordinator to trust, and the collateral for its quote, from ``settings``."""
    from keyhouse.client.trust import Trust
    from keyhouse.client.trust_files import first_manifest_of, vendor_root

    expected, root = _expected(settings.attestation), vendor_root(settings.simulation_root)
    return Trust(
        expected=expected,
        collateral=_collateral(settings, root),
        root_ca_der=root,
        first_manifest=first_manifest_of(settings.first_manifest),
    )


def _expected(path: Path | None) -> "ExpectedIdentity":
    from keyhouse.client.trust_files import expected_identity

    assert path is not None  # noqa: S101 for mypy: the caller has checked
    with _named(path):
        return expected_identity(read_file(str(path)))


def _collateral(settings: RunSettings, root_ca: bytes) -> "Collateral | CollateralFor":
    from keyhouse.attestation import read_collateral
    from keyhouse.client.trust_files import bundle_file, ca_of, from_pccs

    file = bundle_file(settings.collateral, settings.simulation_root, settings.pccs)
    if file is None:
        return from_pccs(settings.pccs, ca_of(settings.pccs_ca), root_ca, _warn)
    if settings.pccs_ca is not None:
        raise SettingRefusedError.no_effect("--pccs-ca", "also pass --pccs URL")
    with _named(file):
        return read_collateral(read_file(str(file)))


def _warn(text: str) -> None:
    write_error(f"warning: {printable(text)}\n")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add ``path`` to the message of a ``RefusedError`` that the context raises."""
    try:
        yield
    except RefusedError as refusal:
        if str(path) not in refusal.message:
            problems = "; ".join(map(str, getattr(refusal, "problems", ())[:_MOST_PROBLEMS]))
            refusal.message = f"{path}: {problems or refusal.message}"
        raise


def _same(pinned: Anchor, anchor: Anchor) -> bool:
    same_root = hmac.compare_digest(pinned.root, anchor.root)
    return same_root and pinned.intermediate in {None, anchor.intermediate}


def _default_client_api(coordinator: str) -> str:
    """Return the default address of the Client API: the host of ``coordinator``, port 4433.

    ``coordinator``: the address of the workload API.
    """
    return str(Address(read_mesh_address(coordinator).host, CLIENT_API_PORT))


def simulated_identity(path: Path | None) -> "Measurements | VmIdentity | None":
    """Return the identity in the attestation file ``path``: an enclave or a confidential VM.

    Without a ``path``, return None: the simulated workload then has the identity of the simulated
    coordinator. If the file lacks a field of an enclave, this field is zero. Raises
    ``LaunchRefusedError`` for an unreadable file, and ``ConfigurationRefusedError`` for a file that
    any enclave would match.
    """
    from keyhouse.attestation import Measurements, read_expected_identity

    if path is None:
        return None
    identity = read_expected_identity(read_named_file(path, _LARGEST, LaunchRefusedError))
    if identity.vm is not None:
        return identity.vm
    return Measurements(
        unique_id=identity.unique_id or _UNSET,
        signer_id=identity.signer_id or _UNSET,
        product_id=identity.product_id,
        security_version=identity.security_version,
    )
