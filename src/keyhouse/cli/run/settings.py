"""The settings of `keyhouse run`: flags first, then variables of the environment.

As for `keyhouse serve`, *measured* settings decide what is trusted and have no variable: they come
from the command line, which belongs to the image. *Host* settings may cost the start, nothing else.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from keyhouse.server.process.settings import Setting, SettingRefusedError

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
        "what makes the quote: auto (hardware that shows itself, or no quote), gramine, tdx, or"
        " simulation",
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
        "trust coordinators that prove by their quote to be whom this attestation file says",
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

_PLATFORMS: Final = ("auto", "gramine", "tdx", "simulation")
_FORMATS: Final = ("text", "json")  # of the flag; in a variable any other word means text
_OF_QUOTES: Final = ("--collateral", "--pccs", "--pccs-ca", "--simulation-root")
_LONGEST_DIGITS: Final = 5
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
    client_api: str  # empty: port 4433 of the coordinator's host
    collateral: Path | None
    pccs: str
    pccs_ca: Path | None
    simulation_root: Path | None
    as_json: bool
    words: tuple[bytes, ...]  # PROGRAM ARGS...


def read_run_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> RunSettings:
    """Return the settings of a `keyhouse run` process.

    Raises ``SettingRefusedError`` for a value that cannot be. Wrong usage ends the process with 2.
    """
    flags, words = _halves(arguments)
    parser = _parser()
    given, others = parser.parse_known_args(flags)
    if others:
        _misused(parser, others)
    values = {setting.flag: _value(setting, given, environment) for setting in RUN_SETTINGS}
    _check(parser, values)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keyhouse run",
        usage=_USAGE,
        description="Join the deployment as a workload, then become PROGRAM.",
        allow_abbrev=False,
        formatter_class=argparse.HelpFormatter,
    )
    for setting in RUN_SETTINGS:
        variables = f" [{', '.join(setting.variables)}]" if setting.variables else ""
        default = f" (default: {setting.default})" if setting.default else ""
        parser.add_argument(
            setting.flag, metavar="VALUE", help=f"{setting.help}{default}{variables}"
        )
    return parser


def _misused(parser: argparse.ArgumentParser, others: Sequence[str]) -> NoReturn:
    if others[0].startswith("-"):
        parser.error(f"there is no setting {others[0]}")
    parser.error(f"-- has to stand before the program: keyhouse run ... -- {others[0]}")


def _value(setting: Setting, given: argparse.Namespace, environment: Mapping[str, str]) -> str:
    flag = getattr(given, setting.flag.removeprefix("--").replace("-", "_"))
    if isinstance(flag, str):
        if not flag:
            raise SettingRefusedError(
                f"{setting.flag} is empty", hint="leave it out for the default"
            )
        if setting.flag == "--log-format" and flag.casefold() not in _FORMATS:
            raise SettingRefusedError(
                "--log-format has a value that cannot be", hint=f"one of: {', '.join(_FORMATS)}"
            )
        return flag
    return _of_environment(setting, environment)


def _of_environment(setting: Setting, environment: Mapping[str, str]) -> str:
    return next(filter(None, map(environment.get, setting.variables)), setting.default)


def _is_json(log_format: str) -> bool:
    return log_format.casefold() == "json"


def _check(parser: argparse.ArgumentParser, values: Mapping[str, str]) -> None:
    if not values["--type"]:
        parser.error("the marble type is missing: --type, or KEYHOUSE_MARBLE_TYPE")
    if values["--platform"] not in _PLATFORMS:
        raise SettingRefusedError(
            "--platform has a value that cannot be", hint=f"one of: {', '.join(_PLATFORMS)}"
        )
    if not values["--type"].isprintable():  # so it is text, whatever the bytes were
        raise SettingRefusedError("the marble type is no text", hint="name one of the manifest")
    digits = values["--timeout"]
    if not (digits.isascii() and digits.isdecimal() and 0 < len(digits) <= _LONGEST_DIGITS):
        raise SettingRefusedError(
            "the timeout is no number of seconds", hint="such as --timeout 60"
        )
    # Hardware measures its own identity: there the flag can only be a mistake.
    if values["--simulated-identity"] and values["--platform"] != "simulation":
        raise SettingRefusedError(
            "--simulated-identity has no effect here", hint="it goes with --platform simulation"
        )
    for flag in _OF_QUOTES:
        if values[flag] and not values["--attestation"]:
            raise SettingRefusedError(
                f"{flag} has no effect here", hint="it goes with --attestation: name that file, too"
            )


def _path(value: str) -> Path | None:
    return Path(value) if value else None
