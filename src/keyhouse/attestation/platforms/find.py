"""Finds the platform that was asked for by name.

Only the name that the caller passes counts: no environment variable, file or quote chooses a
platform, and none is ever taken in place of another.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

import msgspec

from keyhouse.attestation.platforms.platform import Measurements, Platform, SealPolicy
from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import quoted
from keyhouse.wire.json_decoder import resembling
from keyhouse.wire.snp import SnpTcb
from keyhouse.wire.tcb_status import TcbStatus
from keyhouse.wire.vm_identity import VmIdentity

PLATFORMS = ("gramine", "tdx", "snp", "simulation")
"""The names that can be asked for."""

SIMULATED_BUNDLES = ("collateral.json", "collateral-tdx.json")
"""Files in the folder of a simulated machine: what verifies its quotes of enclaves, and of VMs."""


class SimulatedAmd(msgspec.Struct, frozen=True):
    """The AMD processor of a simulated machine, and the files that verify its reports."""

    product: str = "Genoa"  # the line of processors that it plays
    tcb: SnpTcb = SnpTcb(10, 0, 23, 84)  # the versions of its firmware
    root: str = "amd-root.pem"
    collateral: str = "amd.pem"


SIMULATED_AMD = SimulatedAmd()

_SIMULATION = "keyhouse_simulation"


class PlatformMissingError(RefusedError):
    """No such platform, not on this machine, or its distribution is not installed."""

    code = "platform-missing"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class SimulatedTcb(msgspec.Struct, frozen=True):
    """What the collateral of a simulated machine says of it."""

    status: TcbStatus = TcbStatus.UP_TO_DATE
    advisories: tuple[str, ...] = ()


class SimulatedMachine(Platform, Protocol):
    """A simulated machine, as an enclave on it sees it."""

    @property
    def coordinator(self) -> Platform:
        """The machine as the coordinator on it sees it: from its enclave, or confidential VM."""
        ...

    def seen_by(self, workload: Measurements | VmIdentity) -> Platform:
        """Return the machine as a workload sees it: an enclave, or a confidential VM.

        What a confidential VM does not name is as it is on the simulated machine.
        """
        ...


class OpenSimulation(Protocol):
    """Opens the simulated machine in ``folder``, which is created if it is missing."""

    def __call__(
        self,
        folder: Path,
        *,
        now: Callable[[], datetime] = _utc_now,
        tcb: SimulatedTcb | None = None,
        upkeep: bool = True,
    ) -> SimulatedMachine:
        """Return it as the coordinator sees it.

        ``now``: the machine's clock, UTC; its collateral is renewed by it. ``tcb``: what the
        new collateral says of the machine from now on; None: what it says already.
        ``upkeep``: False leaves the files of the machine as they are, for one who only quotes.
        """
        ...


class AddSimulatedMachine(Protocol):
    """Makes a simulated machine in the empty ``folder``, of the vendor of the one in ``beside``."""

    def __call__(self, folder: Path, beside: Path, *, coordinator: Measurements) -> object:
        """Return it. ``coordinator``: who the coordinator there is.

        Raises ``RefusedError`` if there is a machine already, or either cannot be used.
        """
        ...


def platform_name(wanted: str, exists: Callable[[Path], bool] = Path.exists) -> str:
    """Return the platform to open for ``wanted``: of ``auto`` the hardware of this machine.

    A simulation is never chosen that way. For ``auto`` raises ``PlatformMissingError`` without
    hardware, ``PlatformUnusableError`` for a confidential VM of an unknown kind.
    """
    if wanted != "auto":
        return wanted
    from keyhouse.attestation.platforms.files import PlatformUnusableError
    from keyhouse.attestation.platforms.gramine import DEV_ATTESTATION
    from keyhouse.attestation.platforms.tsm import SEV_GUEST, TDX_GUEST, TSM_REPORTS

    signs = {"gramine": DEV_ATTESTATION, "snp": SEV_GUEST, "tdx": TDX_GUEST}
    for name, path in signs.items():
        if exists(path):
            return name
    if exists(TSM_REPORTS):
        raise PlatformUnusableError(
            f"the platform cannot be used: {TSM_REPORTS} is there, but neither {SEV_GUEST} (snp)"
            f" nor {TDX_GUEST} (tdx) shows whose reports it gives",
            hint="load the driver sev-guest or tdx-guest, and give a container its device;"
            " or name the platform",
        )
    looked_for = " nor ".join(f"{name} ({path})" for name, path in signs.items())
    raise PlatformMissingError(f"no platform was found here: neither {looked_for}", hint=_NOT_HERE)


_NOT_HERE = (
    "start it in an enclave; or, to try it out without any protection, say --platform simulation"
)


def open_platform(
    name: str,
    state_dir: Path,
    *,
    exists: Callable[[Path], bool] = Path.is_dir,
    must_seal: bool = True,
) -> Platform:
    """Return the platform ``name``: it makes quotes and, if it ``must_seal``, derives sealing keys.

    It may keep a folder of its own name under ``state_dir``. ``exists`` tells whether hardware's
    directory is on this machine. Raises ``PlatformMissingError`` for names that are unknown, not
    installed or not of this machine, ``NoSealingKeyError`` for a platform that cannot keep a state,
    and whatever refusals the platform itself has.
    """
    if name == "simulation":
        platform = simulation()(simulated_folder(state_dir)).coordinator
    else:
        platform = open_for_quotes(name, state_dir, exists=exists)
    # Asked for now, a key that cannot be derived stops the start, not the first manifest.
    if must_seal:
        platform.sealing_key(SealPolicy.PRODUCT_KEY)
    return platform


def open_for_quotes(
    name: str,
    state_dir: Path,
    *,
    exists: Callable[[Path], bool] = Path.is_dir,
    simulated: Measurements | VmIdentity | None = None,
) -> Platform:
    """Return the platform ``name`` for one who keeps no state: it need not derive sealing keys.

    ``simulated``: who quotes there; the coordinator if not given. Real platforms measure that
    themselves and refuse to be told. ``state_dir``, ``exists`` and refusals as for
    ``open_platform``.
    """
    if simulated is not None and name != "simulation":
        raise PlatformMissingError(
            "only the simulated platform can be told what it measures",
            hint="leave the identity out, or say --platform simulation",
        )
    match name:
        case "simulation":
            # Its clock may be another one than the coordinator's, whose files these are.
            machine = simulation()(simulated_folder(state_dir), upkeep=False)
            return machine if simulated is None else machine.seen_by(simulated)
        case "gramine":
            from keyhouse.attestation.platforms.gramine import DEV_ATTESTATION, open_gramine

            _require_place(name, DEV_ATTESTATION, exists)
            return open_gramine()
        case "tdx":
            from keyhouse.attestation.platforms.tsm import TSM_REPORTS, open_tdx

            _require_place(name, TSM_REPORTS, exists)
            return open_tdx()
        case "snp":
            from keyhouse.attestation.platforms.tsm import TSM_REPORTS, open_snp

            _require_place(name, TSM_REPORTS, exists)
            return open_snp()
        case _:
            raise PlatformMissingError(
                f"there is no platform {quoted(name)}: known are {', '.join(PLATFORMS)}",
                hint=f"did you mean {close}?" if (close := resembling(name, PLATFORMS)) else "",
            )


def simulated_folder(state_dir: Path, *, must_exist: bool = False) -> Path:
    """Return where the simulated machine of the coordinator at ``state_dir`` is.

    Raises ``PlatformMissingError`` if it ``must_exist`` and does not.
    """
    folder = state_dir / "simulation"
    if must_exist and not folder.is_dir():
        raise PlatformMissingError(
            f"there is no simulated machine in {quoted(str(state_dir))}",
            hint="start its coordinator first: keyhouse serve --platform simulation --data-dir DIR",
        )
    return folder


def _require_place(name: str, place: Path, exists: Callable[[Path], bool]) -> None:
    if not exists(place):
        raise PlatformMissingError(
            f"the platform {name} is not here: there is no {place}",
            hint=_NOT_HERE,
        )


def simulation() -> OpenSimulation:
    """Return what opens simulated machines.

    Raises ``PlatformMissingError`` if it is not installed.
    """
    return cast(OpenSimulation, _simulation().open_platform)


def add_simulated_machine() -> AddSimulatedMachine:
    """Return what makes simulated machines of one vendor. Raises as ``simulation``."""
    return cast(AddSimulatedMachine, _simulation().add_machine)


def _simulation() -> ModuleType:
    # By its name: a search of all distributions for an entry point costs a start 10 ms.
    try:
        return import_module(_SIMULATION)
    except ModuleNotFoundError as missing:
        if missing.name != _SIMULATION:
            raise
        raise PlatformMissingError(
            "the simulated platform is not installed",
            hint="install the distribution keyhouse-simulation; production images leave it out",
        ) from None
