"""The folder of a simulated machine. Deleting it makes a new machine at the next start.

::

    machine.json      the keys (0600), written once; everything else is made from it
    root.pem          the root certificate, for clients
    collateral.json   the collateral bundle, for clients; renewed when it would end soon, and then
                      it says of the machine what it said before
    collateral-tdx.json   the same for quotes of its confidential VMs, with the same lists
    amd-root.pem      the root of the simulated AMD, the same in every folder
    amd.pem           what verifies reports of SEV-SNP beside it
    attestation.json  the identity that clients should expect
    coordinator.json  who the coordinator there is, in the form of attestation.json; without it,
                      the simulated coordinator (``COORDINATOR``)

A file is replaced whole (written beside, renamed), and opening holds a lock on the folder, so two
processes that open it for the first time agree on one machine. The keys are synced before anything
is made from them, the other files together: where a crash has changed one, it is written again.
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
from keyhouse.base.durable_files import replace_file, sync_directory, sync_file
from keyhouse.base.errors import BrokenError, RefusedError
from keyhouse.base.openers import without_links
from keyhouse.base.printable import os_reason
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse_simulation import amd_vendor
from keyhouse_simulation.attestation_file import write_expected_identity
from keyhouse_simulation.machine import Machine, make_machine, pem
from keyhouse_simulation.parameters import COORDINATOR, Enclave, Parameters
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
    """The folder of a simulated machine cannot be used as it is."""

    code = "simulation-damaged"


def open_platform(
    folder: Path,
    *,
    now: Clock = utc_now,
    tcb: SimulatedTcb | None = None,
    upkeep: bool = True,
) -> SimulatedPlatform:
    """Return the machine in ``folder``, made there if the folder is empty or does not exist.

    ``tcb``: what new collateral says of the machine from now on.
    The public files are up to date afterwards. Collateral that was made for a machine of before was
    tried out: the production verifier has accepted a quote under it. Without ``upkeep`` they stay
    as they are, also where ``now`` differs from the clock that they were made by. Raises
    ``FolderDamagedError`` or ``RefusedError``, naming the file.
    """
    try:
        with _locked(folder):
            return _open(folder, now, tcb, upkeep=upkeep)
    except OSError as exc:
        raise RefusedError(
            f"the folder of the simulated machine, {folder}, cannot be used: {os_reason(exc)}",
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

    Quotes of both verify under one root, with the same collateral; what one seals the other cannot
    open. ``coordinator``: who the coordinator there is; as a confidential VM it cannot seal. Errors
    as for ``open_platform``.
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
            enclave = Enclave(measurements=coordinator)
            platform = SimulatedPlatform(machine, Parameters(enclave=enclave))
        identity = write_expected_identity(platform.expected_identity)
        replace_file(folder / _COORDINATOR, identity, alone=True)
    return open_platform(folder, now=now)


def _open(folder: Path, now: Clock, tcb: SimulatedTcb | None, *, upkeep: bool) -> SimulatedPlatform:
    moment = now()
    is_new = not (folder / _MACHINE).exists()
    machine = _machine(folder, moment)
    collateral = _usable_collateral(folder, machine, moment) if tcb is None else None
    said = tcb or _said(folder)
    coordinator = _coordinator(folder)
    parameters = msgspec.structs.replace(_saying(said), enclave=_enclave(folder, coordinator))
    vm = None if coordinator is None else coordinator.tdx
    platform = SimulatedPlatform(machine, parameters, now=now, collateral=collateral, vm=vm)
    try:
        if collateral is None and (tcb or not is_new):
            _try_out(platform, platform.collateral, moment)
    except QuoteRefusedError as exc:
        raise _damaged(folder, f"its own quote is refused ({exc.reason})") from None
    except ConfigurationRefusedError:
        raise _damaged(folder, f"{_MACHINE} holds an invalid root") from None
    if not upkeep:
        return platform
    said_by_amd = amd_vendor.ASK + amd_vendor.VLEK_AUTHORITY + amd_vendor.LIST
    files = {
        _ROOT: pem(machine.root).encode(),
        _COLLATERAL: write_collateral(platform.collateral),
        SIMULATED_AMD.root: amd_vendor.ROOT.encode(),
        SIMULATED_AMD.collateral: said_by_amd.encode(),
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
    # A missing key file among others is damage; a new machine would be a silent change of root.
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


def _enclave(folder: Path, found: ExpectedIdentity | None) -> Enclave:
    if found is None or found.tdx is not None:
        return Enclave()
    if not (found.unique_id and found.signer_id):
        raise _damaged(folder, f"{_COORDINATOR} lacks UniqueID or SignerID")
    measured = Measurements(
        found.unique_id, found.signer_id, found.product_id, found.security_version
    )
    return Enclave(measurements=measured)


def _usable_collateral(folder: Path, machine: Machine, moment: datetime) -> Collateral | None:
    path = folder / _COLLATERAL
    if not path.exists():
        return None
    try:
        collateral = read_collateral(_read(path, MAX_COLLATERAL))
        root = machine.root.public_bytes(Encoding.DER)
        end = require_sound(collateral, root, moment).expires
    except CollateralRefusedError:
        return None  # it is public and is made again
    return collateral if end - moment > _RENEW_BEFORE else None


def _is_usable_for_vms(folder: Path, platform: SimulatedPlatform, moment: datetime) -> bool:
    """Tell whether the bundle for confidential VMs was made beside that of ``platform``."""
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
    tcbStatus: TcbStatus  # noqa: N815 as the document has it
    advisoryIDs: tuple[str, ...]  # noqa: N815


class _Info(msgspec.Struct):
    tcbLevels: tuple[_Level]  # noqa: N815


def _said(folder: Path) -> SimulatedTcb:
    """Return what the collateral, also one that has ended, says of the machine."""
    path = folder / _COLLATERAL
    try:
        text = read_collateral(_read(path, MAX_COLLATERAL)).tcb_info
        [level] = msgspec.json.decode(text, type=_Info).tcbLevels
    except (FileNotFoundError, CollateralRefusedError, msgspec.DecodeError):
        return SimulatedTcb()  # none is there yet, or it is damaged
    if level.tcbStatus is TcbStatus.REVOKED:  # so damaged, too: nobody can tell a machine that
        return SimulatedTcb()
    return SimulatedTcb(level.tcbStatus, level.advisoryIDs)


def _saying(said: SimulatedTcb) -> Parameters:
    """Return parameters of which all collateral says ``said`` of the machine."""
    usual = Parameters()
    sgx, tdx = (
        msgspec.structs.replace(info, status=said.status, advisories=said.advisories)
        for info in (usual.tcb_info, usual.td_tcb_info)
    )
    return Parameters(tcb_info=sgx, td_tcb_info=tdx)


def _try_out(platform: SimulatedPlatform, collateral: Collateral, moment: datetime) -> None:
    """Have the production verifier accept a quote of ``platform``."""
    quote = platform.quote(report_data(bytes(32)))
    Verifier(platform.root_ca).verify(quote, collateral, moment)


def _read(path: Path, maximum: int) -> bytes:
    with open(path, "rb", opener=without_links) as file:
        return file.read(maximum + 1)


def _write_changed(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make the files in ``folder`` hold what they have to, durably."""
    changed = [
        path
        for path in (folder / name for name in files)
        if not path.exists() or _read(path, len(files[path.name])) != files[path.name]
    ]
    for path in changed:
        replace_file(path, files[path.name], alone=True, durable=False)
    for path in changed:  # the first sync writes all of them
        sync_file(path)
    if changed:
        sync_directory(folder)


def _damaged(folder: Path, problem: str) -> FolderDamagedError:
    return FolderDamagedError(
        f"the simulated machine in {folder} is damaged: {problem}",
        hint="restore the folder; or delete it for a new machine, which opens no old state",
    )
