"""Options of `keyhouse doctor` for a hardware report."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

from keyhouse.cli.parser import Option, OptionGroup, WrongUsageError

PLATFORMS: Final = ("auto", "tdx", "snp", "simulation")


class HardwareOptions(OptionGroup, frozen=True, kw_only=True):
    """The file of a hardware report, and the hardware to try."""

    section = "Hardware report"

    hardware_report: Annotated[
        str,
        Option(
            "--hardware-report",
            metavar="FILE",
            help="try this machine with a coordinator of its own, and write a redacted report to"
            " this new file (JSON)",
        ),
    ] = ""
    enclave: Annotated[
        Path | None,
        Option(
            "--enclave",
            metavar="DIR",
            help="SGX: directory with keyhouse.manifest.sgx and keyhouse.sig of an enclave whose"
            " state directory is empty",
        ),
    ] = None
    platform: Annotated[
        str,
        Option(
            "--platform",
            metavar="NAME",
            help="auto, tdx, snp or simulation (default: auto, the hardware of this machine)",
        ),
    ] = "auto"
    amd_collateral: Annotated[
        Path | None,
        Option(
            "--amd-collateral",
            help="SEV-SNP: file in AMD's format to verify the report, or a directory of such files",
        ),
    ] = None

    def check(self, beside: Iterable[OptionGroup]) -> None:
        """Raise ``WrongUsageError`` for an option without effect, or an unknown platform.

        ``beside``, the option groups of the command, has no effect.
        """
        del beside
        given = {
            "--enclave": self.enclave is not None,
            "--platform": self.platform != "auto",
            "--amd-collateral": self.amd_collateral is not None,
        }
        for name, is_given in given.items():
            if is_given and not self.hardware_report:
                raise WrongUsageError.no_effect(name, "use it with --hardware-report")
        if self.platform not in PLATFORMS:
            raise WrongUsageError(
                f"--platform {self.platform!r} is unknown; expected {', '.join(PLATFORMS)}",
                hint="for SGX, pass --enclave DIR",
            )
        if self.enclave is not None and self.platform != "auto":
            raise WrongUsageError(
                "--enclave and --platform both name the hardware", hint="omit one of them"
            )
