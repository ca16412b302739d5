"""The folder of a simulated machine. After its deletion, the next start generates a new machine.

::

    machine.json      the keys (0600), written once; all other files are derived from it
    root.pem          the root certificate, for clients
    collateral.json   the collateral bundle, for clients; renewed before its end, with the same
                      content about the machine
    collateral-tdx.json   the same for quotes of confidential VMs, with the same lists
    amd-root.pem      the root of the simulated AMD, the same in every folder
    amd.pem           the intermediate certificates and the list for SEV-SNP reports
    attestation.json  the identity that clients should expect
    coordinator.json  the identity of the coordinator, in the form of attestation.json; without this
                      file, the simulated coordinator (``COORDINATOR``)

Each file is replaced as a whole (a temporary file, then a rename). Opening locks the folder, so two
processes never generate two machines in one folder. The keys are synced before any derived file is
written. The derived files are synced together. If a crash has damaged a derived file, the next
start writes the file again.
"""

import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.attestation import (
    Collateral,
    CollateralRefusedError,
    ConfigurationRefusedError,
    ExpectedIdentity,
    Measurements,
    QuoteRefusedError,
    TcbStatus,
    Verifier,
    read_collateral,
    read_expected_identity,
    report_data,
    require_sound,
    write_collateral,
)
from keyhouse.attestation.collateral.bundle import MAX_COLLATERAL
from keyhouse.attestation.platforms.find import SIMULATED_AMD, SIMULATED_BUNDLES, SimulatedTcb
from keyhouse.base.durable_files import replace_file, sync_directory, sync_file, without_links
from keyhouse.base.errors import BrokenError, RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse_simulation import amd_vendor
from keyhouse_simulation.attestation_file import write_expected_identity
from keyhouse_simulation.machine import Machine, make_machine, pem
from keyhouse_simulation.parameters import COORDINATOR, QuotedEnclave, QuoteParameters
from keyhouse_simulation.platform import Clock, SimulatedPlatform, utc_now
from keyhouse_simulation.record import MAX_RECORD, UnusableRecordError, read_record, write_record

_MACHINE = "machine.json"
_ROOT = "root.pem"
_COLLATERAL, _TD_COLLATERAL = SIMULATED_BUNDLES
_ATTESTATION = "attestation.json"
_COORDINATOR = "coordinator.json"
_MAX_IDENTITY = 65_536
_RENEW_BEFORE = timedelta(days=90)


class FolderDamagedError(BrokenError):
    """The folder of a simulated machine is unusable in its current state."""

    code = "simulation-damaged"


def open_platform(
    folder: Path,
    *,
    now: Clock = utc_now,
    tcb: SimulatedTcb | None = None,
    upkeep: bool = True,
) -> SimulatedPlatform:
    """Return the machine in ``folder``. In an empty or missing folder, generate a machine.

    ``tcb`` is the content about the machine in new collateral from now on. Afterwards the public
    files are up to date. Collateral for an existing machine was tested: the production verifier has
    accepted a quote with it. Without ``upkeep`` the files stay unchanged, even if ``now`` differs
    from the clock of their issue. Raises ``FolderDamagedError`` or ``RefusedError``, with the name
    of the file.
    """
    try:
        with _locked(folder):
            return _open(folder, now, tcb, upkeep=upkeep)
    except OSError as exc:
        raise RefusedError(
            f"the folder of the simulated machine, {folder}, is unusable: {os_reason(exc)}",
            hint="choose a state directory that this user can write to",
        ) from None


def add_machine(
    folder: Path,
    beside: Path,
    *,
    now: Clock = utc_now,
    coordinator: Measurements | TdxIdentity = COORDINATOR,
) -> SimulatedPlatform:
    """Return a new machine in the empty ``folder``, of the vendor of the machine in ``beside``.

    Quotes of both machines verify under one root, with the same collateral. A machine cannot unseal
    the data of the second machine. ``coordinator`` is the identity of the coordinator on the new
    machine; a confidential VM cannot seal. Raises the errors of ``open_platform``.
    """
    open_platform(beside, now=now)
    with _locked(folder):
        if (folder / _MACHINE).exists():
            raise _damaged(folder, f"{_MACHINE} already exists")
        vendor = _machine(beside, now())
        machine = make_machine(now(), beside=vendor)
        replace_file(folder / _MACHINE, write_record(machine), alone=True)
        for name in SIMULATED_BUNDLES:
            replace_file(folder / name, _read(beside / name, MAX_COLLATERAL), alone=True)
        if isinstance(coordinator, TdxIdentity):
            platform = SimulatedPlatform(machine, vm=coordinator)
        else:
            enclave = QuotedEnclave(measurements=coordinator)
            platform = SimulatedPlatform(machine, QuoteParameters(enclave=enclave))
        identity = write_expected_identity(platform.expected_identity)
        replace_file(folder / _COORDINATOR, identity, alone=True)
    return open_platform(folder, now=now)


def _open(folder: Path, now: Clock, tcb: SimulatedTcb | None, *, upkeep: bool) -> SimulatedPlatform:
    moment = now()
    is_new = not (folder / _MACHINE).exists()
    machine = _machine(folder, moment)
    collateral = _usable_collateral(folder, machine, moment) if tcb is None else None
    tcb_statement = tcb or _collateral_statement(folder)
    coordinator = _coordinator(folder)
    parameters = msgspec.structs.replace(
        _parameters_for(tcb_statement), enclave=_enclave(folder, coordinator)
    )
    vm = None if coordinator is None else coordinator.tdx
    platform = SimulatedPlatform(machine, parameters, now=now, collateral=collateral, vm=vm)
    try:
        if collateral is None and (tcb or not is_new):
            _try_out(platform, platform.collateral, moment)
    except QuoteRefusedError as exc:
        raise _damaged(folder, f"the machine's quote is refused ({exc.reason})") from None
    except ConfigurationRefusedError:
        raise _damaged(folder, f"{_MACHINE} contains an invalid root") from None
    if not upkeep:
        return platform
    amd_collateral = amd_vendor.ASK + amd_vendor.VLEK_AUTHORITY + amd_vendor.LIST
    files = {
        _ROOT: pem(machine.root).encode(),
        _COLLATERAL: write_collateral(platform.collateral),
        SIMULATED_AMD.root: amd_vendor.ROOT.encode(),
        SIMULATED_AMD.collateral: amd_collateral.encode(),
        _ATTESTATION: write_expected_identity(platform.expected_identity),
    }
    if not _is_usable_for_vms(folder, platform, moment):
        files[_TD_COLLATERAL] = write_collateral(platform.td_collateral)
    _write_changed(folder, files)
    return platform


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    for path in (*reversed(folder.parents), folder):
        if not path.exists():
            path.mkdir(mode=0o700, exist_ok=True)
            sync_directory(path.parent)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        _require_private(os.fstat(handle).st_mode, folder)
        yield
    finally:
        os.close(handle)


def _require_private(mode: int, path: Path) -> None:
    if stat.S_IMODE(mode) & 0o077:
        raise RefusedError(
            f"{path} can be read or changed by other users",
            hint=f"make it private: chmod go= {path}",
        )


def _machine(folder: Path, moment: datetime) -> Machine:
    path = folder / _MACHINE
    if path.exists():
        _require_private(path.lstat().st_mode, path)
        try:
            return read_record(_read(path, MAX_RECORD))
        except UnusableRecordError as exc:
            raise _damaged(folder, f"{_MACHINE} {exc.problem}") from None
    # A missing key file among existing files is damage. A new machine would silently change the
    # root.
    if (folder / _ROOT).exists():
        raise _damaged(folder, f"{_MACHINE} is missing")
    machine = make_machine(moment)
    replace_file(path, write_record(machine), alone=True)
    return machine


def _coordinator(folder: Path) -> ExpectedIdentity | None:
    path = folder / _COORDINATOR
    if not path.exists():
        return None
    try:
        return read_expected_identity(_read(path, _MAX_IDENTITY))
    except ConfigurationRefusedError as exc:
        raise _damaged(folder, f"{_COORDINATOR}: {exc.message}") from None


def _enclave(folder: Path, found: ExpectedIdentity | None) -> QuotedEnclave:
    if found is None or found.tdx is not None:
        return QuotedEnclave()
    if not (found.unique_id and found.signer_id):
        raise _damaged(folder, f"{_COORDINATOR} lacks UniqueID or SignerID")
    measured = Measurements(
        found.unique_id, found.signer_id, found.product_id, found.security_version
    )
    return QuotedEnclave(measurements=measured)


def _usable_collateral(folder: Path, machine: Machine, moment: datetime) -> Collateral | None:
    path = folder / _COLLATERAL
    if not path.exists():
        return None
    try:
        collateral = read_collateral(_read(path, MAX_COLLATERAL))
        root = machine.root.public_bytes(Encoding.DER)
        end = require_sound(collateral, root, moment).expires
    except CollateralRefusedError:
        return None  # the platform issues new collateral, and the file is public
    return collateral if end - moment > _RENEW_BEFORE else None


def _is_usable_for_vms(folder: Path, platform: SimulatedPlatform, moment: datetime) -> bool:
    """Return whether the bundle for confidential VMs belongs to the collateral of ``platform``."""
    try:
        found = read_collateral(_read(folder / _TD_COLLATERAL, MAX_COLLATERAL))
        end = require_sound(found, platform.root_ca, moment).expires
    except (FileNotFoundError, CollateralRefusedError):
        return False
    is_beside = found.root_ca_crl == platform.collateral.root_ca_crl
    return (
        is_beside and found.pck_crl == platform.collateral.pck_crl and end - moment > _RENEW_BEFORE
    )


class _Level(msgspec.Struct):
    tcbStatus: TcbStatus  # noqa: N815 the name in the document
    advisoryIDs: tuple[str, ...]  # noqa: N815


class _Info(msgspec.Struct):
    tcbLevels: tuple[_Level]  # noqa: N815


def _collateral_statement(folder: Path) -> SimulatedTcb:
    """Return the content about the machine in the collateral, even in expired collateral."""
    path = folder / _COLLATERAL
    try:
        text = read_collateral(_read(path, MAX_COLLATERAL)).tcb_info
        [level] = msgspec.json.decode(text, type=_Info).tcbLevels
    except (FileNotFoundError, CollateralRefusedError, msgspec.DecodeError):
        return SimulatedTcb()  # the collateral is missing or damaged
    if level.tcbStatus is TcbStatus.REVOKED:  # no option sets this status, so the file is damaged
        return SimulatedTcb()
    return SimulatedTcb(level.tcbStatus, level.advisoryIDs)


def _parameters_for(tcb_statement: SimulatedTcb) -> QuoteParameters:
    """Return parameters with the content ``tcb_statement`` about the machine in all collateral."""
    usual = QuoteParameters()
    sgx, tdx = (
        msgspec.structs.replace(
            info, status=tcb_statement.status, advisories=tcb_statement.advisories
        )
        for info in (usual.tcb_info, usual.td_tcb_info)
    )
    return QuoteParameters(tcb_info=sgx, td_tcb_info=tdx)


def _try_out(platform: SimulatedPlatform, collateral: Collateral, moment: datetime) -> None:
    """Require that the production verifier accepts a quote of ``platform``."""
    quote = platform.quote(report_data(bytes(32)))
    Verifier(platform.root_ca).verify(quote, collateral, moment)


def _read(path: Path, maximum: int) -> bytes:
    with open(path, "rb", opener=without_links) as file:
        return file.read(maximum + 1)


def _write_changed(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files in ``folder`` that differ from ``files``, durably."""
    changed = [
        path
        for path in (folder / name for name in files)
        if not path.exists() or _read(path, len(files[path.name])) != files[path.name]
    ]
    for path in changed:
        replace_file(path, files[path.name], alone=True, durable=False)
    for path in changed:  # the first sync writes all changed files
        sync_file(path)
    if changed:
        sync_directory(folder)


def _damaged(folder: Path, problem: str) -> FolderDamagedError:
    return FolderDamagedError(
        f"the simulated machine in {folder} is damaged: {problem}",
        hint="restore the folder; or delete it for a new machine, which opens no old state",
    )
