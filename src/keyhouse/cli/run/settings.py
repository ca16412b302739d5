"""The settings of `keyhouse run`: flags first, then variables of the environment.

As for `keyhouse serve`, *measured* settings decide what is trusted and have no variable: they come
from the command line, which belongs to the image. *Host* settings may cost the start, nothing else.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from keyhouse.server.process.flags import (
    Setting,
    SettingMisusedError,
    SettingRefusedError,
    read_flags,
)

__all__ = ["RUN_SETTINGS", "RunSettings", "read_run_settings", "reports_in_json"]

RUN_SETTINGS: Final = (
    Setting(
        "--coordinator",
        "host",
        "localhost:2001",
        "address of the workload API, HOST:PORT",
        ("KEYHOUSE_MARBLE_COORDINATOR_ADDR", "EDG_MARBLE_COORDINATOR_ADDR"),
    ),
    Setting(
        "--type",
        "host",
        "",
        "marble type, a name of the manifest; needed",
        ("KEYHOUSE_MARBLE_TYPE", "EDG_MARBLE_TYPE"),
    ),
    Setting(
        "--dns-names",
        "host",
        "localhost",
        "names and IP addresses for the certificate, comma-separated",
        ("KEYHOUSE_MARBLE_DNS_NAMES", "EDG_MARBLE_DNS_NAMES"),
    ),
    Setting(
        "--uuid-file",
        "host",
        "uuid",
        "file with the UUID of this instance, made if there is none",
        ("KEYHOUSE_MARBLE_UUID_FILE", "EDG_MARBLE_UUID_FILE"),
    ),
    Setting(
        "--timeout",
        "host",
        "60",
        "seconds until an activation that is not possible yet is given up",
        ("KEYHOUSE_MARBLE_TIMEOUT",),
    ),
    Setting(
        "--platform",
        "measured",
        "auto",
        "what makes the quote: auto (the hardware that is found, or no quote), gramine, tdx, snp"
        " or simulation",
    ),
    Setting(
        "--simulated-machine",
        "measured",
        "keyhouse-data",
        "data directory of the simulated coordinator, whose machine quotes: --platform simulation",
    ),
    Setting(
        "--simulated-identity",
        "measured",
        "",
        "who the simulated machine says the workload is: a file as for --attestation; the"
        " coordinator itself if not given",
    ),
    Setting(
        "--root-certificate",
        "measured",
        "",
        "trust this deployment alone: file with its root certificate, or with intermediate and"
        " root (PEM)",
    ),
    Setting(
        "--attestation",
        "measured",
        "",
        "trust coordinators that prove by their quote to be what this attestation file pins",
    ),
    Setting(
        "--unverified-coordinator",
        "measured",
        "",
        "trust anyone who answers, who can feed the program any parameters: for a trial on your own"
        " machine",
        is_switch=True,
    ),
    Setting(
        "--client-api",
        "host",
        "",
        "where to ask for the quote, HOST:PORT; port 4433 of the coordinator if not given",
        ("KEYHOUSE_MARBLE_CLIENT_API_ADDR",),
    ),
    Setting(
        "--collateral",
        "measured",
        "",
        "file of the collateral that verifies the quote (default with --simulation-root:"
        " collateral.json beside it)",
    ),
    Setting("--pccs", "measured", "", "ask this PCCS (https://name:port) for the collateral"),
    Setting("--pccs-ca", "measured", "", "the only CA (PEM file) that may vouch for the PCCS"),
    Setting(
        "--simulation-root",
        "measured",
        "",
        "trust quotes of a SIMULATED platform under this root (PEM file)",
    ),
    Setting(
        "--log-format",
        "host",
        "text",
        "text or json: how the launcher reports to standard error",
        ("KEYHOUSE_LOG_FORMAT", "EDG_LOG_FORMAT"),
    ),
)

_PLATFORMS: Final = ("auto", "gramine", "tdx", "snp", "simulation")
_FORMATS: Final = ("text", "json")  # of the flag; in a variable any other word means text
_OF_QUOTES: Final = ("--collateral", "--pccs", "--pccs-ca", "--simulation-root")
_LONGEST_DIGITS: Final = 5
_ABOUT: Final = "Join the deployment as a workload, then become PROGRAM."
_BEFORE_PROGRAM: Final = "put -- before the program: keyhouse run ... -- PROGRAM ARGS..."
_USAGE: Final = """keyhouse run [--SETTING VALUE]... -- PROGRAM ARGS...

example: keyhouse run --type web --coordinator coordinator:2001 --root-certificate root.pem \\
           -- /usr/bin/python3 app.py"""


class RunSettings(msgspec.Struct, frozen=True):
    """The settings of one launcher."""

    coordinator: str
    kind: str  # the marble type
    dns_names: str
    uuid_file: str
    timeout: float  # seconds
    platform: str
    simulated_machine: Path
    simulated_identity: Path | None  # None: the coordinator's
    root_certificate: Path | None
    attestation: Path | None
    is_unverified: bool  # trust anyone who answers; then there is neither of the two above
    client_api: str  # empty: port 4433 of the coordinator's host
    collateral: Path | None
    pccs: str
    pccs_ca: Path | None
    simulation_root: Path | None
    as_json: bool
    words: tuple[bytes, ...]  # PROGRAM ARGS...


def read_run_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> RunSettings:
    """Return the settings of a `keyhouse run` process.

    Raises ``SettingRefusedError`` for an invalid value, ``SettingMisusedError`` for wrong usage.
    """
    flags, words = _halves(arguments)
    given = read_flags(RUN_SETTINGS, flags, usage=_USAGE, about=_ABOUT, word=_BEFORE_PROGRAM)
    values = {setting.flag: _value(setting, given, environment) for setting in RUN_SETTINGS}
    is_unverified = bool(given["unverified_coordinator"])
    _require_trust(values, is_unverified=is_unverified)
    _check(values)
    return RunSettings(
        coordinator=values["--coordinator"],
        kind=values["--type"],
        dns_names=values["--dns-names"],
        uuid_file=values["--uuid-file"],
        timeout=float(values["--timeout"]),
        platform=values["--platform"],
        simulated_machine=Path(values["--simulated-machine"]),
        simulated_identity=_path(values["--simulated-identity"]),
        root_certificate=_path(values["--root-certificate"]),
        attestation=_path(values["--attestation"]),
        is_unverified=is_unverified,
        client_api=values["--client-api"],
        collateral=_path(values["--collateral"]),
        pccs=values["--pccs"],
        pccs_ca=_path(values["--pccs-ca"]),
        simulation_root=_path(values["--simulation-root"]),
        as_json=_is_json(values["--log-format"]),
        words=tuple(map(os.fsencode, words)),
    )


def reports_in_json(environment: Mapping[str, str]) -> bool:
    """Return whether reports are JSON by the environment alone: until the settings are read."""
    setting = next(each for each in RUN_SETTINGS if each.flag == "--log-format")
    return _is_json(_of_environment(setting, environment))


def _halves(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return what stands before the first ``--``, and what stands behind it."""
    if "--" not in arguments:
        return arguments, ()
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _value(setting: Setting, given: Mapping[str, object], environment: Mapping[str, str]) -> str:
    flag = given[setting.flag.removeprefix("--").replace("-", "_")]
    if isinstance(flag, str):
        if not flag:
            raise SettingRefusedError(
                f"{setting.flag} is empty", hint="leave it out for the default"
            )
        if setting.flag == "--log-format" and flag.casefold() not in _FORMATS:
            raise SettingRefusedError(
                "--log-format has an invalid value", hint=f"one of: {', '.join(_FORMATS)}"
            )
        return flag
    return _of_environment(setting, environment)


def _of_environment(setting: Setting, environment: Mapping[str, str]) -> str:
    return next(filter(None, map(environment.get, setting.variables)), setting.default)


def _is_json(log_format: str) -> bool:
    return log_format.casefold() == "json"


def _require_trust(values: Mapping[str, str], *, is_unverified: bool) -> None:
    """Raise ``SettingMisusedError`` unless the coordinator is verified, or explicitly is not.

    The environment has no say: it is the host's.
    """
    named = [flag for flag in ("--root-certificate", "--attestation") if values[flag]]
    if named and is_unverified:
        raise SettingMisusedError(
            f"--unverified-coordinator contradicts {named[0]}", hint="leave one of the two out"
        )
    if not named and not is_unverified:
        raise SettingMisusedError(
            "no way to verify the coordinator: pass --root-certificate or --attestation",
            hint="only for a trial on your own machine: --unverified-coordinator",
        )


def _check(values: Mapping[str, str]) -> None:
    if not values["--type"]:
        raise SettingMisusedError("no marble type", hint="--type NAME, or KEYHOUSE_MARBLE_TYPE")
    if values["--platform"] not in _PLATFORMS:
        raise SettingRefusedError(
            "--platform has an invalid value", hint=f"one of: {', '.join(_PLATFORMS)}"
        )
    if not values["--type"].isprintable():  # so it is text, whatever the bytes were
        raise SettingRefusedError("the marble type is not text", hint="name one of the manifest")
    digits = values["--timeout"]
    if not (digits.isascii() and digits.isdecimal() and 0 < len(digits) <= _LONGEST_DIGITS):
        raise SettingRefusedError(
            "the timeout is not a number of seconds", hint="such as --timeout 60"
        )
    # Hardware measures its own identity: there the flag can only be a mistake.
    if values["--simulated-identity"] and values["--platform"] != "simulation":
        raise SettingRefusedError(
            "--simulated-identity has no effect here", hint="use it with --platform simulation"
        )
    for flag in _OF_QUOTES:
        if values[flag] and not values["--attestation"]:
            raise SettingRefusedError(
                f"{flag} has no effect here", hint="use it with --attestation FILE"
            )


def _path(value: str) -> Path | None:
    return Path(value) if value else None
