"""`keyhouse doctor`: search for problems, and print how to fix them."""

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import click
from msgspec.structs import replace

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import printable
from keyhouse.cli.doctor.finding import CheckResult
from keyhouse.cli.doctor.hardware.options import HardwareOptions
from keyhouse.cli.options.context_option import context_for
from keyhouse.cli.options.target import HostArgument, Target, TrustOptions
from keyhouse.cli.output.show import coloured, show_json
from keyhouse.cli.output.width import columns, fitted
from keyhouse.cli.parser import REFUSED, AsJson, Option, OptionGroup, WrongUsageError, command
from keyhouse.client.contexts import contexts_path

_MOST_STANDBYS: Final = 99  # the same limit as for `keyhouse serve`
_SHADES: Final = {"ok": "green", "warning": "yellow", "problem": "red", "skipped": "bright_black"}


class LocalOptions(OptionGroup, frozen=True, kw_only=True):
    """The options of `keyhouse doctor` that name files on this machine."""

    cert: Annotated[
        Path | None, Option("--cert", "-c", help="your certificate as a user of the manifest (PEM)")
    ] = None
    key: Annotated[Path | None, Option("--key", "-k", help="the private key of --cert (PEM)")] = (
        None
    )
    data_dir: Annotated[
        Path | None,
        Option(
            "--data-dir",
            metavar="DIR",
            help="a coordinator's state directory on this machine (default: $KEYHOUSE_DATA_DIR, or"
            " keyhouse-data)",
        ),
    ] = None
    store: Annotated[
        str,
        Option(
            "--store",
            metavar="URL",
            help="database of coordinators with a shared state: postgresql://USER@HOST/DATABASE",
        ),
    ] = ""
    store_password_file: Annotated[
        Path | None,
        Option(
            "--store-password-file",
            metavar="FILE",
            help="file with the password for --store in its first line",
        ),
    ] = None
    store_standbys: Annotated[
        int,
        Option(
            "--store-standbys",
            metavar="NUMBER",
            help="number of standbys that must store each change before its acknowledgement",
        ),
    ] = 0

    def require_fitting(self) -> None:
        """Raise ``RefusedError`` for too many standbys, and for an option without ``--store``."""
        if self.store_standbys > _MOST_STANDBYS:
            raise RefusedError(
                f"--store-standbys {self.store_standbys} is too large",
                hint=f"pass a whole number from 0 to {_MOST_STANDBYS}",
            )
        file, standbys = self.store_password_file, self.store_standbys
        if not self.store and (file or standbys):
            flag = "--store-password-file" if file else "--store-standbys"
            raise RefusedError.no_effect(flag, "use it with --store")

    def with_context(self, context: str, host: str) -> "LocalOptions":
        """Return these options, with certificate and key of the context if the options name none.

        ``context`` is the value of ``--context``, and ``host`` the address on the command line.
        Without a context for this address, the method returns the options unchanged.
        """
        context_used = context_for(context, host) if not (self.cert or self.key) else None
        if context_used is None:
            return self
        cert, key = (
            Path(file) if file else None
            for file in (context_used.context.cert, context_used.context.key)
        )
        return replace(self, cert=cert, key=key)


@command
def doctor(
    trusting: TrustOptions,
    local: LocalOptions,
    hardware: HardwareOptions,
    host: HostArgument = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Search for problems, and print how to fix them.

    The command checks this machine (versions, platforms, limits, ports), your files, a state
    directory, the coordinator at HOST after its verification, a shared database, and the PCCS with
    its clock. It needs no root privileges, and prints no secret. It changes only the file of
    remembered coordinators (--memory).

    Each finding is ok, warning, problem or skipped (unknown). Exit code 1: at least one finding is
    a problem.

    With --json, the object is {"ok", "findings": [{"check", "level", "found", "fix"}]}.

    With --hardware-report, the command instead tries the hardware of this machine, and writes a
    redacted report. It starts coordinators with a new state in a temporary folder, or in the empty
    state directory of the enclave, and removes the state at the end. Exit code 1: a part of the
    trial failed. With --json, the object is {"ok", "platform", "sections", "report"}.

    Example: keyhouse doctor localhost:4433 --attestation attestation.json --simulation-root
    root.pem --cert alice.pem --key alice.key
    """
    if hardware.hardware_report:
        _require_only_hardware(host, trusting, local)
        from keyhouse.cli.doctor.hardware.write import write_hardware_report

        write_hardware_report(hardware, Target.at("", trusting), as_json=as_json)
        return
    local.require_fitting()
    target = Target.at(host, trusting).resolve(required=False)
    findings = tuple(_findings(target, local.with_context(trusting.context, host)))
    problems = sum(each.level == "problem" for each in findings)
    if as_json:
        show_json({"ok": not problems, "findings": findings})
    else:
        for each in findings:
            _show(each)
        sys.stderr.write(f"{problems} problem{'s' if problems != 1 else ''}\n")
    if problems:
        sys.exit(REFUSED)


_OF_HARDWARE: Final = frozenset({"pccs", "pccs_ca", "collateral"})


def _require_only_hardware(host: str, *groups: OptionGroup) -> None:
    """Raise ``WrongUsageError`` for arguments without effect beside ``--hardware-report``.

    The address ``host`` and most options of ``groups`` are such arguments.
    """
    hint = "omit this argument: --hardware-report starts its own coordinator with a new state"
    if host:
        raise WrongUsageError.no_effect(f"HOST {host}", hint)
    for group in groups:
        usual = type(group)()
        for name in group.__struct_fields__:
            if name not in _OF_HARDWARE and getattr(group, name) != getattr(usual, name):
                raise WrongUsageError.no_effect(f"--{name.replace('_', '-')}", hint)


def _findings(target: Target, local: LocalOptions) -> Iterator[CheckResult]:
    from keyhouse.cli.doctor.files import directory_findings, remembered_findings, user_findings
    from keyhouse.cli.doctor.machine import machine_findings
    from keyhouse.cli.doctor.network import coordinator_findings, database_findings, pccs_findings

    now = datetime.now(UTC)
    yield from machine_findings(target.host if target.attestation else "")
    folder = local.data_dir or Path(os.environ.get("KEYHOUSE_DATA_DIR") or "keyhouse-data")
    yield from directory_findings(folder, is_named=local.data_dir is not None)
    if local.store:
        yield from database_findings(local.store, local.store_password_file, local.store_standbys)
    yield from remembered_findings({"contexts": contexts_path()})
    yield from user_findings(local.cert, local.key, now)
    if target.host and target.attestation is not None:
        yield from coordinator_findings(target, now)
    else:
        fix = "pass HOST and --attestation, or --context"
        yield CheckResult("coordinator", "skipped", "no HOST or no expected identity", fix)
    if target.pccs:
        yield from pccs_findings(target.pccs, target.pccs_ca, now)
    else:
        yield CheckResult(
            "PCCS", "skipped", "no --pccs", "pass --pccs URL; this also compares clocks"
        )


def _show(finding: CheckResult) -> None:
    word = finding.level.ljust(8)
    shown = (
        click.style(word, fg=_SHADES[finding.level], bold=True) if coloured(sys.stdout) else word
    )
    indent, width = len(word) + 1, columns(sys.stdout)
    lines = [f"{shown} {printable(f'{finding.check}: {finding.found}')}"]
    if finding.fix:
        lines.append(f"{' ' * indent}fix: {printable(finding.fix)}")
    for line in lines:
        sys.stdout.write(fitted(line, width, indent) + "\n")
