"""`keyhouse run`: join a deployment as a workload, then become the program.

Reports never contain delivered data. Only the process id of the launcher remains in the program:
see ``launcher/program.py``.
"""

import json
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Final, NoReturn

from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.base.log_texts import OF_LAUNCHER
from keyhouse.base.printable import printable
from keyhouse.base.process.error_text import error_text
from keyhouse.base.process.flags import SettingMisusedError
from keyhouse.base.process.hardening import forbid_dumps
from keyhouse.base.process.isolation import release_environment
from keyhouse.base.process.standard_streams import write_error
from keyhouse.launcher.settings import RunSettings, read_run_settings, reports_in_json
from keyhouse.launcher.stop_signals import deferred_stops, end_on_sigterm

if TYPE_CHECKING:
    from keyhouse.attestation import Platform
    from keyhouse.base.secret import Secret
    from keyhouse.launcher.credentials import Credentials
    from keyhouse.launcher.parameters import Delivered
    from keyhouse.launcher.program import Program


class ProgressReport:
    """Reports progress, warnings and the final error. Delivered data never reach this class."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def progress(self, text: str) -> None:
        """Report a step of the launch."""
        self._line("info", text)

    def warning(self, text: str) -> None:
        """Report a fault that does not stop the launch."""
        self._line("warning", text)

    def error(self, error: KeyhouseError) -> None:
        """Report the error that prevents the start of the program."""
        if self._as_json:
            self._line("error", error.message, hint=error.hint, code=error.code)
        else:
            write_error(error_text(error))

    def _line(self, level: str, text: str, **fields: str) -> None:
        if self._as_json:
            line = {"event": printable(text), "level": level, "timestamp": _now()}
            line |= {name: printable(value) for name, value in fields.items() if value}
            write_error(json.dumps(line) + "\n")
        else:
            mark = "warning: " if level == "warning" else ""
            write_error(f"{OF_LAUNCHER}{mark}{printable(text)}\n")


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
TRUST_FAILED: Final = 4
INTERRUPTED: Final = 130

_UNVERIFIED: Final = (
    "the coordinator is NOT verified: an attacker's can deliver any parameters to this program"
)


def main(arguments: Sequence[str]) -> int:
    """Join the deployment and become the program. On a failure, return the exit code.

    The codes are 1 for refused, 2 for usage, 3 for unreachable, 4 for failed trust and 130 for
    interrupted.
    """
    environment = release_environment()
    # Log texts of libraries may contain received data, so they are dropped.
    warnings.simplefilter("ignore")
    logging.basicConfig(handlers=[logging.NullHandler()])
    report = ProgressReport(as_json=reports_in_json(os.environ))
    try:
        end_on_sigterm()
        settings = read_run_settings(arguments, os.environ)
        report = ProgressReport(as_json=settings.log_format == "json")
        _launch(settings, environment, report)
    except KeyhouseError as error:
        report.error(error)
        return _exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 the last resort, which shows no text of the error
        from keyhouse.base.process.crash_report import UnexpectedError

        write_error(error_text(UnexpectedError.of(error)))
        return REFUSED


def _launch(
    settings: RunSettings, environment: dict[bytes, bytes], report: ProgressReport
) -> NoReturn:
    from keyhouse.launcher.program import program_of, require_program

    require_program(settings.words)
    for missing in forbid_dumps():
        report.warning(missing)
    delivered = _join(settings, report)
    if settings.words[1:] and delivered.argv:
        report.progress("the manifest's Argv replaces the arguments of the command line")
    program = program_of(settings.words, environment, delivered)
    become(program, delivered.files, report)


def become(program: "Program", files: "Mapping[str, Secret]", report: ProgressReport) -> NoReturn:
    """Write ``files`` and execute ``program``.

    If the execution fails, or a signal ends this process first, all written files are removed.
    """
    from keyhouse.launcher.files import write_files
    from keyhouse.launcher.program import start

    with deferred_stops() as end_if_stopped:
        remove_files = write_files(files, end_if_stopped)
        try:
            name = program.file.decode("utf-8", "backslashreplace")
            report.progress(f"activated: {len(files)} files written, starting {name}")
            start(program, end_if_stopped)
        except BaseException:  # also ``SystemExit`` after a signal
            remove_files()
            raise


def _join(settings: RunSettings, report: ProgressReport) -> "Delivered":
    """Join the deployment, with retries, and return the delivered parameters."""
    from keyhouse.launcher.activation import Request, activate, read_mesh_address
    from keyhouse.launcher.anchors import anchors
    from keyhouse.launcher.credentials import make_credentials, read_names
    from keyhouse.launcher.name_resolution import run, within
    from keyhouse.launcher.retries import MonotonicClock, retry
    from keyhouse.launcher.uuid_file import own_uuid

    address = read_mesh_address(settings.coordinator)
    credentials = make_credentials(read_names(settings.dns_names))
    find_anchor = anchors(settings)
    if settings.unverified_coordinator:
        report.warning(_UNVERIFIED)
    who = own_uuid(settings.uuid_file)
    quote = _quote_once(settings, credentials, report)
    report.progress(f"joining {address} as {settings.type}, UUID {who}")
    clock = MonotonicClock()

    def attempt(seconds: float) -> "Delivered":
        end = clock.now() + seconds
        request = Request(address, credentials, quote(), settings.type, who)
        anchor = within(seconds, lambda: find_anchor(seconds)) if find_anchor is not None else None
        return run(activate(request, anchor, max(end - clock.now(), 0)))

    def report_retry(error: UnavailableError, pause: float) -> None:
        report.progress(f"{error.message}; trying again in {pause:.1f} s")

    return retry(attempt, seconds=settings.timeout, clock=clock, on_retry=report_retry)


def _quote_once(
    settings: RunSettings, credentials: "Credentials", report: ProgressReport
) -> Callable[[], bytes]:
    """Return a function that makes the quote over ``credentials`` once, at its first call.

    Further calls return the same bytes. Empty bytes: this machine has no platform for quotes.
    """
    from keyhouse.launcher.credentials import quote_over

    @cache
    def quote() -> bytes:
        platform = _platform(settings, report)
        return quote_over(credentials.certificate, platform) if platform is not None else b""

    return quote


def _platform(settings: RunSettings, report: ProgressReport) -> "Platform | None":
    from keyhouse.attestation import PlatformMissingError
    from keyhouse.attestation.platforms.find import open_for_quotes, platform_name
    from keyhouse.launcher.anchors import simulated_identity

    try:
        name = platform_name(settings.platform)
    except PlatformMissingError:
        report.warning(
            "no platform found, so the quote is empty: only a SIMULATED coordinator accepts that"
        )
        return None
    if name == "simulation":
        report.warning("SIMULATION: the quote proves nothing")
        if not (settings.simulated_machine / "simulation").is_dir():
            raise PlatformMissingError(
                f"there is no simulated machine in {settings.simulated_machine}",
                hint="name the data directory of the coordinator: --simulated-machine",
            )
    identity = simulated_identity(settings.simulated_identity)
    return open_for_quotes(name, settings.simulated_machine.absolute(), simulated=identity)


def _exit_code(error: KeyhouseError) -> int:
    if isinstance(error, SettingMisusedError):
        return USAGE
    # The code also covers the client's TrustError, which is imported only with --attestation.
    if error.code == "trust-failed":
        return TRUST_FAILED
    return UNREACHABLE if isinstance(error, UnavailableError) else REFUSED
