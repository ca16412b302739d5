"""`keyhouse run`: join a deployment as a workload, then become the program or its parent.

Without ``--supervise``, only the process id of the launcher remains in the program: see
``launcher/program.py``.
"""

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.base.log import write_error
from keyhouse.base.process.error_text import error_text
from keyhouse.base.process.flags import SettingMisusedError
from keyhouse.base.process.hardening import forbid_dumps
from keyhouse.base.process.isolation import release_environment
from keyhouse.launcher.reports import ProgressReport
from keyhouse.launcher.settings import RunSettings, read_run_settings, reports_in_json
from keyhouse.launcher.stop_signals import deferred_stops, end_on_sigterm

if TYPE_CHECKING:
    from keyhouse.base.secret import Secret
    from keyhouse.launcher.parameters import Delivered
    from keyhouse.launcher.program import Program


REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
TRUST_FAILED: Final = 4
INTERRUPTED: Final = 130


def main(arguments: Sequence[str]) -> int:
    """Join the deployment, then replace this process by the program.

    With ``--supervise`` the launcher starts the program as a child, and returns the exit code of
    the child. After a failure, returns the launcher's own exit code: 1 for refused, 2 for usage, 3
    for unreachable, 4 for failed trust and 130 for interrupted.
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
        return _launch(settings, environment, report)
    except KeyhouseError as error:
        report.error(error)
        return _exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 the last resort, which shows no text of the error
        from keyhouse.base.process.crash_report import UnexpectedError

        write_error(error_text(UnexpectedError.of(error)))
        return REFUSED


def _launch(settings: RunSettings, environment: dict[bytes, bytes], report: ProgressReport) -> int:
    from keyhouse.launcher.joining import WorkloadJoiner
    from keyhouse.launcher.program import require_program

    require_program(settings.words)
    for missing in forbid_dumps():
        report.warning(missing)
    joiner = WorkloadJoiner(settings, report)
    if not settings.supervise:
        _replace(settings, environment, joiner.join(), report)
    from keyhouse.launcher.supervise.launch import supervise

    return supervise(settings, environment, joiner, report)


def _replace(
    settings: RunSettings,
    environment: dict[bytes, bytes],
    delivered: "Delivered",
    report: ProgressReport,
) -> NoReturn:
    from keyhouse.launcher.program import program_of

    if settings.words[1:] and delivered.argv:
        report.progress("the manifest's Argv replaces the arguments of the command line")
    program = program_of(settings.words, environment, delivered)
    become(program, delivered.files, report)


def become(program: "Program", files: "Mapping[str, Secret]", report: ProgressReport) -> NoReturn:
    """Write ``files`` (contents by path) and execute ``program`` in this process.

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


def _exit_code(error: KeyhouseError) -> int:
    if isinstance(error, SettingMisusedError):
        return USAGE
    # The code also covers the client's TrustError, which is imported only with --attestation.
    if error.code == "trust-failed":
        return TRUST_FAILED
    return UNREACHABLE if isinstance(error, UnavailableError) else REFUSED
