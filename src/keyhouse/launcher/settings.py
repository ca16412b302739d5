"""The settings of `keyhouse run`.

As for `keyhouse serve`, *measured* settings come only from the command line, which belongs to the
image. A wrong *host* setting can prevent the start, but cannot harm confidentiality or integrity.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from keyhouse.base.process.flags import (
    SettingMisusedError,
    SettingRefusedError,
    environment_value,
    file,
    host,
    measured,
    read_flags,
    read_values,
)

_OF_QUOTES: Final = ("collateral", "pccs", "pccs_ca", "simulation_root", "first_manifest")
_LONGEST_DIGITS: Final = 5  # digits, so a timeout is less than 28 hours
_SHORTEST_RENEWAL: Final = 5  # seconds; the coordinator renews at most 12 times in a minute
_ABOUT: Final = "Join the deployment as a workload, then become PROGRAM."
_BEFORE_PROGRAM: Final = "put -- before the program: keyhouse run ... -- PROGRAM ARGS..."
_USAGE: Final = """keyhouse run [--SETTING VALUE]... -- PROGRAM ARGS...

example: keyhouse run --type web --coordinator coordinator:2001 --root-certificate root.pem \\
           -- /usr/bin/python3 app.py"""


def _type(value: str, _source: str) -> str:
    if not value:
        raise SettingMisusedError(
            "the marble type is missing", hint="pass --type NAME, or set KEYHOUSE_MARBLE_TYPE"
        )
    if not value.isprintable():  # bytes that are not UTF-8 are not printable, too
        raise SettingRefusedError(
            "the marble type must be printable UTF-8",
            hint="pass the name of a type in the manifest",
        )
    return value


def _seconds(value: str, _source: str) -> float:
    return _number_of_seconds(value, "the timeout", "--timeout 60")


def _stop_seconds(value: str, _source: str) -> float:
    return _number_of_seconds(value, "the time to stop", "--stop-after 10")


def _renewal_seconds(value: str, _source: str) -> float:
    """Return the longest time between renewals; 0 for an empty value."""
    example = "--renew-every 600"
    seconds = _number_of_seconds(value, "the time between renewals", example) if value else 0
    if value and seconds < _SHORTEST_RENEWAL:
        raise SettingRefusedError(
            f"--renew-every is {seconds:.0f}, must be at least {_SHORTEST_RENEWAL}",
            hint=f"pass a longer time, for example {example}",
        )
    return seconds


def _number_of_seconds(value: str, name: str, example: str) -> float:
    if not (value.isascii() and value.isdecimal() and len(value) <= _LONGEST_DIGITS):
        raise SettingRefusedError(
            f"{name} must be a number of seconds, with at most {_LONGEST_DIGITS} digits",
            hint=f"pass a number, for example {example}",
        )
    return float(value)


def _log_format(value: str, source: str) -> str:
    """Return "json" or "text" for ``value``. Any other word in a variable counts as "text".

    ``source``: the name of the flag or variable. Another word in the flag is an error.
    """
    word = value.casefold()
    if source == "--log-format" and word not in {"text", "json"}:
        raise SettingRefusedError(
            "--log-format must be text or json", hint="pass --log-format text or --log-format json"
        )
    return "json" if word == "json" else "text"


RUN_SETTINGS: Final = (
    host(
        "--coordinator",
        "address of the workload API, HOST:PORT",
        "localhost:2001",
        variables=("KEYHOUSE_MARBLE_COORDINATOR_ADDR", "EDG_MARBLE_COORDINATOR_ADDR"),
    ),
    host(
        "--type",
        "marble type, a name in the manifest; required",
        variables=("KEYHOUSE_MARBLE_TYPE", "EDG_MARBLE_TYPE"),
        read=_type,
    ),
    host(
        "--dns-names",
        "names and IP addresses for the certificate, comma-separated",
        "localhost",
        variables=("KEYHOUSE_MARBLE_DNS_NAMES", "EDG_MARBLE_DNS_NAMES"),
    ),
    host(
        "--uuid-file",
        "file with the UUID of this instance, created if it is missing",
        "uuid",
        variables=("KEYHOUSE_MARBLE_UUID_FILE", "EDG_MARBLE_UUID_FILE"),
    ),
    host(
        "--timeout",
        "seconds to retry an activation that is not yet possible",
        "60",
        variables=("KEYHOUSE_MARBLE_TIMEOUT",),
        read=_seconds,
    ),
    measured(
        "--platform",
        "source of the quote: auto (the available hardware, or no quote), gramine, tdx, snp"
        " or simulation",
        "auto",
        choices=("auto", "gramine", "tdx", "snp", "simulation"),
    ),
    measured(
        "--simulated-machine",
        "data directory of the simulated coordinator, for quotes with --platform simulation",
        "keyhouse-data",
        read=file,
    ),
    measured(
        "--simulated-identity",
        "identity of the workload in simulated quotes: a file as for --attestation; default: the"
        " coordinator's identity",
        read=file,
    ),
    measured(
        "--root-certificate",
        "trust this deployment alone: file with its root certificate, or with intermediate and"
        " root (PEM)",
        read=file,
    ),
    measured(
        "--attestation",
        "trust coordinators whose quote proves the identity in this attestation file",
        read=file,
    ),
    measured(
        "--unverified-coordinator",
        "trust any peer, even one that delivers false parameters: for a trial on your own machine",
        is_switch=True,
    ),
    host(
        "--client-api",
        "address for the request of the quote, HOST:PORT; default: port 4433 of the coordinator",
        variables=("KEYHOUSE_MARBLE_CLIENT_API_ADDR",),
    ),
    measured(
        "--collateral",
        "file with the collateral for the quote (default with --simulation-root: collateral.json in"
        " its directory)",
        read=file,
    ),
    measured("--pccs", "request the collateral from this PCCS (https://name:port)"),
    measured("--pccs-ca", "the only CA (PEM file) that may vouch for the PCCS", read=file),
    measured(
        "--simulation-root",
        "trust quotes of a SIMULATED platform under this root (PEM file)",
        read=file,
    ),
    measured(
        "--first-manifest",
        "required first manifest of the deployment: its fingerprint in hex, or its file; with"
        " --attestation",
    ),
    measured(
        "--supervise",
        "stay as the parent of PROGRAM: renew its certificate, and update its files, while it runs",
        is_switch=True,
    ),
    host(
        "--renew-every",
        "seconds after which the certificate is renewed at the latest, with --supervise; at least"
        " 5; default: half of its lifetime",
        variables=("KEYHOUSE_MARBLE_RENEW_EVERY",),
        read=_renewal_seconds,
    ),
    host(
        "--stop-after",
        "seconds from SIGTERM to SIGKILL when the supervisor ends or restarts PROGRAM",
        "10",
        variables=("KEYHOUSE_MARBLE_STOP_AFTER",),
        read=_stop_seconds,
    ),
    host(
        "--log-format",
        "format of the launcher's reports to standard error: text or json",
        "text",
        variables=("KEYHOUSE_LOG_FORMAT", "EDG_LOG_FORMAT"),
        read=_log_format,
    ),
)


class RunSettings(msgspec.Struct, frozen=True):
    """The settings of `keyhouse run`."""

    coordinator: str
    type: str  # of the marble
    dns_names: str
    uuid_file: str
    timeout: float  # seconds
    platform: str
    simulated_machine: Path
    simulated_identity: Path | None  # None: the coordinator's
    root_certificate: Path | None
    attestation: Path | None
    unverified_coordinator: bool  # trust any peer; excludes the two fields above
    client_api: str  # empty: port 4433 of the coordinator's host
    collateral: Path | None
    pccs: str
    pccs_ca: Path | None
    simulation_root: Path | None
    first_manifest: str  # fingerprint or file; empty: any
    supervise: bool  # stay as the parent of the program
    renew_every: float  # seconds; 0: as the coordinator says
    stop_after: float  # seconds from SIGTERM to SIGKILL
    log_format: str  # "json" or "text"
    words: tuple[bytes, ...]  # PROGRAM ARGS...


def read_run_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> RunSettings:
    """Return the settings of a `keyhouse run` process, from its command line and environment.

    Raises ``SettingRefusedError`` for an invalid value, ``SettingMisusedError`` for wrong usage.
    """
    flags, words = _halves(arguments)
    options = read_flags(RUN_SETTINGS, flags, usage=_USAGE, about=_ABOUT, word=_BEFORE_PROGRAM)
    values = read_values(RUN_SETTINGS, options, environment)
    _require_trust(values)
    # Hardware measures its own identity: there the flag can only be a mistake.
    if values["simulated_identity"] and values["platform"] != "simulation":
        raise SettingRefusedError.no_effect(
            "--simulated-identity", "also pass --platform simulation"
        )
    for setting in RUN_SETTINGS:
        if setting.name in _OF_QUOTES and values[setting.name] and not values["attestation"]:
            raise SettingRefusedError.no_effect(setting.flag, "also pass --attestation FILE")
    return RunSettings(**values, words=tuple(map(os.fsencode, words)))


def reports_in_json(environment: Mapping[str, str]) -> bool:
    """Return whether the environment alone requests JSON, for reports before the flags are read."""
    setting = next(each for each in RUN_SETTINGS if each.flag == "--log-format")
    return _log_format(*environment_value(setting, environment)) == "json"


def _halves(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the settings before the first ``--``, and the program with its arguments after it."""
    if "--" not in arguments:
        return arguments, ()
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _require_trust(values: Mapping[str, Any]) -> None:
    """Require a way to verify the coordinator, or the explicit flag against verification.

    Only the command line can set these flags, because the host controls the environment. Raises
    ``SettingMisusedError``.
    """
    named = [name for name in ("root_certificate", "attestation") if values[name]]
    if named and values["unverified_coordinator"]:
        raise SettingMisusedError(
            f"--unverified-coordinator contradicts --{named[0].replace('_', '-')}",
            hint="omit one of the two",
        )
    if not named and not values["unverified_coordinator"]:
        raise SettingMisusedError(
            "the launcher needs --root-certificate or --attestation to verify the coordinator",
            hint="pass one of these files; only for a trial on your own machine, pass"
            " --unverified-coordinator",
        )
