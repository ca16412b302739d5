"""Write a hardware report: choose the platform, run the trial, and print the outcome."""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from keyhouse.attestation.collateral.amd import read_amd_path
from keyhouse.attestation.platforms.find import PlatformMissingError, platform_name, simulation
from keyhouse.cli.doctor.hardware.attempts import print_line
from keyhouse.cli.doctor.hardware.enclave import TrialEnclave
from keyhouse.cli.doctor.hardware.guest import (
    CollateralSource,
    open_guest,
    skipped_trial,
    trust_of_vendors,
    try_quote,
    try_seal,
)
from keyhouse.cli.doctor.hardware.launches import in_enclave, in_simulation
from keyhouse.cli.doctor.hardware.machine import machine, versions
from keyhouse.cli.doctor.hardware.options import HardwareOptions
from keyhouse.cli.doctor.hardware.report import (
    HardwareReport,
    QuoteSection,
    SealSection,
    Trial,
    sections_of,
)
from keyhouse.cli.doctor.hardware.trial import CoordinatorTrial
from keyhouse.cli.options.target import Target
from keyhouse.cli.output.files import NewFile
from keyhouse.cli.output.show import show_result
from keyhouse.cli.parser import REFUSED, WrongUsageError


def write_hardware_report(options: HardwareOptions, target: Target, *, as_json: bool) -> None:
    """Try this machine, and write the report to the new file (0600) of ``options``.

    ``target`` has the options for Intel's collateral. If a section failed, the process ends with
    exit code 1. Raises ``WrongUsageError``, ``PlatformMissingError``, ``EnclaveUnusableError`` and
    ``FileUnwritableError``.
    """
    platform = _platform(options)
    collateral = _collateral(target, needed=platform == "gramine", platform=platform)
    enclave = TrialEnclave(options.enclave) if options.enclave is not None else None
    file = NewFile(options.hardware_report)
    try:
        with tempfile.TemporaryDirectory(prefix="keyhouse-hardware-") as name:
            quote, trial = _tried(Path(name), options, platform, enclave, collateral)
    except BaseException:  # also a signal to stop
        file.remove()
        raise
    report = _report(platform, enclave, quote, trial)
    file.write(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    _show(report, options.hardware_report, as_json=as_json)
    if not report.ok:
        sys.exit(REFUSED)


def _platform(options: HardwareOptions) -> str:
    """Return the name of the platform to try, by ``options`` or else by the devices of the machine.

    Raises ``PlatformMissingError`` and ``WrongUsageError``.
    """
    if options.enclave is not None:
        return "gramine"
    try:
        name = platform_name(options.platform)
    except PlatformMissingError as missing:
        raise PlatformMissingError(
            missing.message,
            hint="with SGX, pass --enclave DIR; for a trial without hardware, pass --platform"
            " simulation",
        ) from None
    if name == "gramine":
        raise WrongUsageError(
            "this command runs in an enclave, but it must start the enclave of the trial itself",
            hint="run the command outside of Gramine, with --enclave DIR",
        )
    if name == "simulation":
        simulation()
    return name


def _collateral(target: Target, *, needed: bool, platform: str) -> CollateralSource | None:
    """Return Intel's collateral, or a function to fetch it, by the options of ``target``.

    None means that no option names collateral. ``needed``: the trial cannot verify its quotes
    without collateral. Raises ``WrongUsageError`` for missing collateral that is needed, and for
    collateral that ``platform`` does not use.
    """
    from keyhouse.attestation import INTEL_SGX_ROOT
    from keyhouse.client.trust_files import bundle_file, collateral_of

    if target.pccs or target.collateral:
        if platform in {"simulation", "snp"}:
            flag = "--pccs" if target.pccs else "--collateral"
            raise WrongUsageError.no_effect(
                flag, "omit the option: only SGX and TDX use collateral of Intel"
            )
        bundle = bundle_file(target.collateral, None, target.pccs)
        return collateral_of(bundle, target.pccs, target.pccs_ca, INTEL_SGX_ROOT)
    if needed:
        raise WrongUsageError(
            "no collateral: the quote of the enclave cannot be verified",
            hint="pass --pccs URL or --collateral FILE; see keyhouse collateral fetch --help",
        )
    return None


def _tried(
    scratch: Path,
    options: HardwareOptions,
    platform: str,
    enclave: TrialEnclave | None,
    collateral: CollateralSource | None,
) -> tuple[QuoteSection, Trial]:
    """Run the trial of ``platform`` with files below ``scratch``; return its results.

    ``enclave``: the signed enclave, or None on a platform without enclaves. ``collateral``:
    Intel's collateral, or None.
    """
    if enclave is not None and options.enclave is not None and collateral is not None:
        launch = in_enclave(enclave, options.enclave, collateral)
        return CoordinatorTrial(launch, scratch).run()
    if platform == "simulation":
        return CoordinatorTrial(in_simulation(scratch), scratch).run()
    amd = read_amd_path(options.amd_collateral) if options.amd_collateral is not None else None
    guest = open_guest(platform)
    quote = try_quote(guest, trust_of_vendors(collateral, amd))
    seal = try_seal(guest)
    return quote, _trial_in_guest(scratch, seal)


def _trial_in_guest(scratch: Path, seal: SealSection) -> Trial:
    """Run a trial on the simulated platform in this VM, because the VM cannot seal a state.

    The results have the times and the memory in this VM, and ``seal``, the VM's own section about
    sealing.
    """
    try:
        simulation()
    except PlatformMissingError as missing:
        print_line("skipped: the simulated platform for a coordinator in this VM is not installed")
        return skipped_trial(seal, missing.code)
    print_line("a confidential VM seals no state; the coordinator in it has the simulated platform")
    _, trial = CoordinatorTrial(in_simulation(scratch), scratch).run()
    return msgspec.structs.replace(trial, seal=seal)


def _report(
    platform: str, enclave: TrialEnclave | None, quote: QuoteSection, trial: Trial
) -> HardwareReport:
    report = HardwareReport(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        platform=platform,
        simulated=platform == "simulation",
        ok=True,
        versions=versions(),
        machine=machine(),
        enclave=enclave.settings if enclave is not None else None,
        quote=quote,
        coordinator=trial,
    )
    failed = any(each.outcome == "failed" for each in sections_of(report).values())
    return msgspec.structs.replace(report, ok=not failed)


def _show(report: HardwareReport, path: str, *, as_json: bool) -> None:
    sections = sections_of(report)
    rows = {name: f"{each.outcome}  {each.reason}".rstrip() for name, each in sections.items()}
    simulated = "  (SIMULATED: says nothing about hardware)" if report.simulated else ""
    rows |= {"platform": f"{report.platform}{simulated}", "report": path}
    outcomes = {name: each.outcome for name, each in sections.items()}
    result = {"ok": report.ok, "platform": report.platform, "sections": outcomes, "report": path}
    show_result(result, rows, as_json=as_json)
