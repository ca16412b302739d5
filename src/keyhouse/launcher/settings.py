"""The settings of `keyhouse run`.

As for `keyhouse serve`, *measured* settings come from the command line alone, which belongs to the
image. *Host* settings may cost the start, nothing else.
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
_LONGEST_DIGITS: Final = 5  # digits
_ABOUT: Final = "Join the deployment as a workload, then become PROGRAM."
_BEFORE_PROGRAM: Final = "put -- before the program: keyhouse run ... -- PROGRAM ARGS..."
_USAGE: Final = """keyhouse run [--SETTING VALUE]... -- PROGRAM ARGS...

example: keyhouse run --type web --coordinator coordinator:2001 --root-certificate root.pem \\
           -- /usr/bin/python3 app.py"""


def _type(value: str, _source: str) -> str:
    if not value:
        raise SettingMisusedError("no marble type", hint="--type NAME, or KEYHOUSE_MARBLE_TYPE")
    if not value.isprintable():  # so it is text, whatever the bytes were
        raise SettingRefusedError("the marble type is not text", hint="name one of the manifest")
    return value


def _seconds(value: str, _source: str) -> float:
    if not (value.isascii() and value.isdecimal() and len(value) <= _LONGEST_DIGITS):
        raise SettingRefusedError(
            "the timeout is not a number of seconds", hint="such as --timeout 60"
        )
    return float(value)


def _log_format(value: str, source: str) -> str:
    """Return "json" or "text", which any other word in a variable means."""
    found = value.casefold()
    if source == "--log-format" and found not in {"text", "json"}:
        raise SettingRefusedError("--log-format has an invalid value", hint="one of: text, json")
    return "json" if found == "json" else "text"


RUN_SETTINGS: Final = (
    host(
        "--coordinator",
        "address of the workload API, HOST:PORT",
        "localhost:2001",
        variables=("KEYHOUSE_MARBLE_COORDINATOR_ADDR", "EDG_MARBLE_COORDINATOR_ADDR"),
    ),
    host(
        "--type",
        "marble type, a name of the manifest; needed",
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
        "file with the UUID of this instance, made if there is none",
        "uuid",
        variables=("KEYHOUSE_MARBLE_UUID_FILE", "EDG_MARBLE_UUID_FILE"),
    ),
    host(
        "--timeout",
        "seconds until an activation that is not possible yet is given up",
        "60",
        variables=("KEYHOUSE_MARBLE_TIMEOUT",),
        read=_seconds,
    ),
    measured(
        "--platform",
        "what makes the quote: auto (the hardware that is found, or no quote), gramine, tdx, snp"
        " or simulation",
        "auto",
        choices=("auto", "gramine", "tdx", "snp", "simulation"),
    ),
    measured(
        "--simulated-machine",
        "data directory of the simulated coordinator, whose machine quotes: --platform simulation",
        "keyhouse-data",
        read=file,
    ),
    measured(
        "--simulated-identity",
        "who the simulated machine says the workload is: a file as for --attestation; the"
        " coordinator itself if not given",
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
        "trust coordinators that prove by their quote to be what this attestation file pins",
        read=file,
    ),
    measured(
        "--unverified-coordinator",
        "trust anyone who answers, who can feed the program any parameters: for a trial on your own"
        " machine",
        is_switch=True,
    ),
    host(
        "--client-api",
        "where to ask for the quote, HOST:PORT; port 4433 of the coordinator if not given",
        variables=("KEYHOUSE_MARBLE_CLIENT_API_ADDR",),
    ),
    measured(
        "--collateral",
        "file of the collateral that verifies the quote (default with --simulation-root:"
        " collateral.json beside it)",
        read=file,
    ),
    measured("--pccs", "ask this PCCS (https://name:port) for the collateral"),
    measured("--pccs-ca", "the only CA (PEM file) that may vouch for the PCCS", read=file),
    measured(
        "--simulation-root",
        "trust quotes of a SIMULATED platform under this root (PEM file)",
        read=file,
    ),
    measured(
        "--first-manifest",
        "the manifest that the deployment must have begun with: its fingerprint in hex, or its"
        " file; with --attestation",
    ),
    host(
        "--log-format",
        "text or json: how the launcher reports to standard error",
        "text",
        variables=("KEYHOUSE_LOG_FORMAT", "EDG_LOG_FORMAT"),
        read=_log_format,
    ),
)


class RunSettings(msgspec.Struct, frozen=True):
    """The settings of one launcher."""

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
    unverified_coordinator: bool  # trust anyone who answers; then there is neither of the two above
    client_api: str  # empty: port 4433 of the coordinator's host
    collateral: Path | None
    pccs: str
    pccs_ca: Path | None
    simulation_root: Path | None
    first_manifest: str  # fingerprint or file; empty: any
    log_format: str  # "json" or "text"
    words: tuple[bytes, ...]  # PROGRAM ARGS...


def read_run_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> RunSettings:
    """Return the settings of a `keyhouse run` process.

    Raises ``SettingRefusedError`` for an invalid value, ``SettingMisusedError`` for wrong usage.
    """
    flags, words = _halves(arguments)
    given = read_flags(RUN_SETTINGS, flags, usage=_USAGE, about=_ABOUT, word=_BEFORE_PROGRAM)
    values = read_values(RUN_SETTINGS, given, environment)
    _require_trust(values)
    # Hardware measures its own identity: there the flag can only be a mistake.
    if values["simulated_identity"] and values["platform"] != "simulation":
        raise SettingRefusedError.no_effect(
            "--simulated-identity", "use it with --platform simulation"
        )
    for setting in RUN_SETTINGS:
        if setting.name in _OF_QUOTES and values[setting.name] and not values["attestation"]:
            raise SettingRefusedError.no_effect(setting.flag, "use it with --attestation FILE")
    return RunSettings(**values, words=tuple(map(os.fsencode, words)))


def reports_in_json(environment: Mapping[str, str]) -> bool:
    """Return whether reports are JSON by the environment alone: until the settings are read."""
    setting = next(each for each in RUN_SETTINGS if each.flag == "--log-format")
    return _log_format(*environment_value(setting, environment)) == "json"


def _halves(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return what stands before the first ``--``, and what stands behind it."""
    if "--" not in arguments:
        return arguments, ()
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _require_trust(values: Mapping[str, Any]) -> None:
    """Raise ``SettingMisusedError`` unless the coordinator is verified, or explicitly is not.

    The environment has no say: it is the host's.
    """
    named = [name for name in ("root_certificate", "attestation") if values[name]]
    if named and values["unverified_coordinator"]:
        raise SettingMisusedError(
            f"--unverified-coordinator contradicts --{named[0].replace('_', '-')}",
            hint="leave one of the two out",
        )
    if not named and not values["unverified_coordinator"]:
        raise SettingMisusedError(
            "no way to verify the coordinator: pass --root-certificate or --attestation",
            hint="only for a trial on your own machine: --unverified-coordinator",
        )
