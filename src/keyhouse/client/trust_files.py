"""Read the inputs of a verification from files: identity, simulated root, collateral or PCCS."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from string import hexdigits
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    Collateral,
    ExpectedIdentity,
    TcbStatus,
    read_collateral,
    read_expected_identity,
)
from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import printable
from keyhouse.base.user_files import read_file, read_named_file, user_folder
from keyhouse.client.errors import ClientSetupError
from keyhouse.client.line import fingerprint_of
from keyhouse.client.pem_faults import certificate_fault
from keyhouse.wire.json_decoder import nearest

_LARGEST: Final = 64 << 20  # bytes, chosen: a bundle has less than 100,000
_HEX_DIGITS: Final = 64  # of a fingerprint


class RootUnreadableError(ClientSetupError):
    """The file of a root or a CA is not a certificate."""

    code = "root-unreadable"


def read_named(path: str | Path) -> bytes:
    """Return the content of a file. Raises ``ClientSetupError``, which names the file."""
    return read_named_file(path, _LARGEST, ClientSetupError)


def expected_identity(
    content: bytes, statuses: Sequence[str] = (), advisories: Sequence[str] = ()
) -> ExpectedIdentity:
    """Return the identity in ``content``, the content of an attestation file.

    Nonempty ``statuses`` or ``advisories`` replace the accepted TCB statuses or advisories of the
    file. Raises ``ConfigurationRefusedError``, and ``RefusedError`` for an unknown status.
    """
    identity = read_expected_identity(content)
    unknown = sorted(set(statuses) - set(TcbStatus))
    if unknown:
        raise RefusedError(
            f"the TCB status {unknown[0]!r} is unknown", hint=nearest(unknown[0], tuple(TcbStatus))
        )
    if statuses:
        identity = msgspec.structs.replace(
            identity, accepted_tcb_statuses=tuple(map(TcbStatus, statuses))
        )
    if advisories:
        identity = msgspec.structs.replace(identity, accepted_advisories=tuple(advisories))
    return identity


def certificate_der(pem: bytes, name: str | Path) -> bytes:
    """Return the first certificate (DER) in ``pem``, the content of the file ``name``.

    Raises ``RootUnreadableError`` with ``name``.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise no_certificate(name, pem) from None
    return certificate.public_bytes(Encoding.DER)


def no_certificate(name: str | Path, content: bytes) -> RootUnreadableError:
    """Return the error for the file ``name``, whose ``content`` is not a PEM certificate."""
    fault = certificate_fault(content)
    return RootUnreadableError(f"{name} {fault.problem}", hint=fault.hint)


def vendor_root(simulation_root: Path | None) -> bytes:
    """Return the root to pin (DER): Intel's root, or the root of a simulated vendor.

    Raises ``FileUnreadableError`` and ``RootUnreadableError``.
    """
    if simulation_root is None:
        return INTEL_SGX_ROOT
    return certificate_der(read_file(str(simulation_root)), simulation_root)


def ca_of(pccs_ca: Path | None) -> bytes:
    """Return the PEM of the only accepted CA for the PCCS; empty means the CAs of the system.

    Raises ``FileUnreadableError``, and ``RootUnreadableError`` for an empty file. Otherwise an
    empty file would count as a missing option, and every CA of the system would be accepted.
    """
    if pccs_ca is None:
        return b""
    pem = read_file(str(pccs_ca))
    if not pem:
        raise no_certificate(pccs_ca, pem)
    return pem


def first_manifest_of(option: str) -> str:
    """Return the fingerprint of ``--first-manifest`` in hex, or "" without this option.

    The option has 64 hex digits, or names the file of the manifest. Raises ``FileUnreadableError``.
    """
    if not option:
        return ""
    if len(option) == _HEX_DIGITS and set(option.lower()) <= set(hexdigits):
        return option.lower()
    return fingerprint_of(read_file(option))


def bundle_file(
    collateral: str | Path | None, simulation_root: str | Path | None, pccs: str
) -> Path | None:
    """Return the file of the bundle: ``collateral``, or the file beside a simulation's root.

    None: the PCCS has the collateral. Raises ``RefusedError`` if ``pccs`` and ``collateral`` are
    named, and if there is no source.
    """
    if pccs and collateral:
        raise RefusedError(
            "collateral is named twice, by a PCCS and by a bundle",
            hint="omit the PCCS (pccs) or the bundle (collateral)",
        )
    if pccs:
        return None
    if collateral:
        return Path(collateral)
    if not simulation_root:
        raise RefusedError(
            "no collateral is named, so quotes cannot be verified",
            hint="name a PCCS (pccs) or a bundle (collateral)",
        )
    bundle = Path(simulation_root).with_name("collateral.json")
    if Path(simulation_root).exists() and not bundle.exists():
        raise RefusedError(
            f"{simulation_root} has no collateral.json beside it, so it is not the root of a"
            " simulated machine",
            hint="name simulation/root.pem in the state directory; a coordinator's root certificate"
            " is a different file",
        )
    return bundle


def collateral_of(
    bundle: Path | None, pccs: str, pccs_ca: str | Path | None, root_ca: bytes
) -> Collateral | Callable[[bytes], Collateral]:
    """Return the collateral in the file ``bundle``, or a function that gets it from a PCCS.

    Without a bundle, the function returns the collateral for a quote from the PCCS at the URL
    ``pccs``. ``pccs_ca`` is the file of the only accepted CA of the PCCS; None accepts the CAs of
    the system. ``root_ca`` is the root (DER) of the platform's vendor. Raises ``RefusedError`` for
    unusable files.
    """
    if bundle is not None and pccs_ca:
        raise ClientSetupError.no_effect("pccs_ca", "also pass pccs")
    if bundle is not None:
        return read_collateral(read_named(bundle))
    ca = read_named(pccs_ca) if pccs_ca else b""
    if pccs_ca:
        certificate_der(ca, pccs_ca)  # an empty file would mean every CA of the system
    return from_pccs(pccs, ca, root_ca)


def cache_folder() -> Path | None:
    """Return the folder for fetched collateral, ``keyhouse/collateral`` in the user's cache.

    The user's cache is ``$XDG_CACHE_HOME`` or ``$HOME/.cache``. Without these variables, return
    None: then nothing is stored.
    """
    folder = user_folder("XDG_CACHE_HOME", ".cache")
    return None if folder is None else folder / "collateral"


def _log(text: str) -> None:
    logging.getLogger("keyhouse.client").warning("%s", printable(text))


def from_pccs(
    url: str, ca: bytes, root_ca: bytes, warn: Callable[[str], None] = _log
) -> Callable[[bytes], Collateral]:
    """Return a function that gets the collateral for a quote from the user's cache or the PCCS.

    ``ca`` is the only CA (PEM) for the PCCS; empty means the CAs of the system. ``root_ca`` is the
    root (DER) of the platform's vendor. ``warn`` gets each warning as a text for people. Raises
    ``ConfigurationRefusedError`` immediately. The returned function blocks, and raises
    ``QuoteRefusedError`` and ``CollateralUnavailableError``.
    """
    import asyncio

    from keyhouse.attestation.collateral.pccs import Pccs
    from keyhouse.attestation.sources.pccs_source import PccsSource

    pccs = Pccs(url, ca)

    async def fetch_one(quote: bytes) -> Collateral:
        async with PccsSource(pccs, root_ca, cache_folder(), warn=warn) as source:
            return await source.collateral_for(quote)

    def fetch(quote: bytes) -> Collateral:
        with ThreadPoolExecutor(1) as thread:  # the caller's thread may have an event loop
            return thread.submit(lambda: asyncio.run(fetch_one(quote))).result()

    return fetch
