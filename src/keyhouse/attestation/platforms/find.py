"""Opens the platform with a given name.

Only the name from the caller counts. No environment variable, file or quote chooses a platform, and
no platform replaces another.
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
from keyhouse.wire.json_decoder import nearest
from keyhouse.wire.kinds.identity import VmIdentity
from keyhouse.wire.kinds.snp import SnpTcb
from keyhouse.wire.tcb_status import TcbStatus

PLATFORMS = ("gramine", "tdx", "snp", "simulation")
"""The names of the platforms."""

SIMULATED_BUNDLES = ("collateral.json", "collateral-tdx.json")
"""Files in the folder of a simulated machine that verify its quotes of enclaves and of VMs."""


class SimulatedAmd(msgspec.Struct, frozen=True):
    """The AMD processor of a simulated machine, and the files that verify its reports."""

    product: str = "Genoa"  # the simulated line of processors
    tcb: SnpTcb = SnpTcb(10, 0, 23, 84)  # the versions of its firmware
    root: str = "amd-root.pem"
    collateral: str = "amd.pem"


SIMULATED_AMD = SimulatedAmd()

_SIMULATION = "keyhouse_simulation"


class PlatformMissingError(RefusedError):
    """The platform is unknown, not on this machine, or its distribution is not installed."""

    code = "platform-missing"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class SimulatedTcb(msgspec.Struct, frozen=True):
    """The TCB status and advisories that a simulated machine's collateral states."""

    status: TcbStatus = TcbStatus.UP_TO_DATE
    advisories: tuple[str, ...] = ()


class SimulatedMachine(Platform, Protocol):
    """A simulated machine, as an enclave on this machine sees it."""

    @property
    def coordinator(self) -> Platform:
        """The machine as its coordinator sees it, in an enclave or a confidential VM."""
        ...

    def seen_by(self, workload: Measurements | VmIdentity) -> Platform:
        """Return the machine as ``workload`` sees it: an enclave, or a confidential VM.

        The quotes of the result state the identity ``workload``.

        Fields without a value in the identity of a VM have the values of the simulated machine.
        """
        ...


class OpenSimulation(Protocol):
    """Opens the simulated machine in ``folder``. Creates a missing machine."""

    def __call__(
        self,
        folder: Path,
        *,
        now: Callable[[], datetime] = _utc_now,
        tcb: SimulatedTcb | None = None,
        upkeep: bool = True,
    ) -> SimulatedMachine:
        """Return the machine as its coordinator sees it.

        ``now``: the machine's clock, UTC; the machine renews its collateral by this clock. ``tcb``:
        the statements of new collateral from now on; None: unchanged. ``upkeep``: False leaves the
        files of the machine unchanged, for a caller that only makes quotes.
        """
        ...


def platform_name(wanted: str, exists: Callable[[Path], bool] = Path.exists) -> str:
    """Return the platform name ``wanted``; for ``auto``, the name of this machine's hardware.

    ``exists`` returns whether a path exists on this machine. ``auto`` never chooses a simulation.
    For ``auto``, raises ``PlatformMissingError`` without hardware, and ``PlatformUnusableError``
    for an unknown kind of confidential VM.
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
            f"the platform cannot be used: {TSM_REPORTS} exists, but neither {SEV_GUEST} (snp)"
            f" nor {TDX_GUEST} (tdx) exists",
            hint="load the driver sev-guest or tdx-guest, and pass its device into a container;"
            " or name the platform with --platform",
        )
    looked_for = " nor ".join(f"{name} ({path})" for name, path in signs.items())
    raise PlatformMissingError(
        f"no platform was found here: neither {looked_for} exists", hint=_NOT_HERE
    )


_NOT_HERE = (
    "start the program in an enclave; or, for a trial without protection, use --platform simulation"
)


def open_platform(
    name: str,
    state_dir: Path,
    *,
    exists: Callable[[Path], bool] = Path.is_dir,
    must_seal: bool = True,
) -> Platform:
    """Return the platform ``name``: it makes quotes and, with ``must_seal``, derives sealing keys.

    A platform may keep a folder with its name under ``state_dir``. ``exists`` returns whether the
    hardware's directory is on this machine. Raises ``PlatformMissingError`` for a platform that is
    unknown, not installed or not on this machine. Raises ``NoSealingKeyError`` if ``must_seal`` is
    impossible, and the refusals of the platform itself.
    """
    if name == "simulation":
        platform = simulation()(simulated_folder(state_dir)).coordinator
    else:
        platform = open_for_quotes(name, state_dir, exists=exists)
    # A key that cannot be derived stops the start now, not the first manifest later.
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
    """Return the platform ``name`` for a caller without a state. It need not derive sealing keys.

    ``simulated``: the identity in simulated quotes; by default the coordinator's. Hardware measures
    the identity itself, so other platforms refuse this argument. ``state_dir``, ``exists`` and
    refusals: as in ``open_platform``.
    """
    if simulated is not None and name != "simulation":
        raise PlatformMissingError(
            f"the platform {name} accepts no simulated identity, because hardware measures the"
            " identity",
            hint="leave the simulated identity out, or use --platform simulation",
        )
    match name:
        case "simulation":
            # The machine's files belong to the coordinator, whose clock may differ.
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
                f"there is no platform {quoted(name)}; the platforms are {', '.join(PLATFORMS)}",
                hint=nearest(name, PLATFORMS),
            )


def simulated_folder(state_dir: Path, *, must_exist: bool = False) -> Path:
    """Return the folder of the simulated machine of the coordinator at ``state_dir``.

    With ``must_exist``, raises ``PlatformMissingError`` if the folder is missing.
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
            f"the platform {name} is not on this machine: {place} does not exist",
            hint=_NOT_HERE,
        )


def simulation() -> OpenSimulation:
    """Return the function that opens simulated machines.

    Raises ``PlatformMissingError`` if the simulation is not installed.
    """
    return cast(OpenSimulation, simulation_package().open_platform)


def simulation_package() -> ModuleType:
    """Return the package of the simulated platform. Raises ``PlatformMissingError``."""
    # Imported by name, because a search of all distributions for an entry point takes 10 ms.
    try:
        return import_module(_SIMULATION)
    except ModuleNotFoundError as missing:
        if missing.name != _SIMULATION:
            raise
        raise PlatformMissingError(
            "the simulated platform is not installed",
            hint="install the distribution keyhouse-simulation; production images leave it out",
        ) from None
