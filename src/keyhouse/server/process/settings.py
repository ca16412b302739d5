"""What `keyhouse serve` can be told: flags first, then variables of the environment.

Each setting has a class (security rules, "The host"). *Measured* settings decide what is trusted:
they come from the command line, which the platform measures, and never from the environment.
*Host* settings may cost availability, never confidentiality or integrity.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from keyhouse.server.process.flags import Setting, SettingRefusedError, read_flags
from keyhouse.wire.address import CLIENT_API_PORT, WORKLOAD_API_PORT

__all__ = ["MOST_DAYS", "SETTINGS", "Settings", "read_settings"]


SETTINGS: Final = (
    Setting(
        "--platform",
        "measured",
        "auto",
        "auto, gramine, tdx, snp or simulation (which proves nothing and protects nothing)",
    ),
    Setting("--curve", "measured", "P-256", "P-256 or P-384, for the keys of a new deployment"),
    Setting(
        "--confirm-clock",
        "measured",
        "",
        "start although the clock is more than a year ahead of the journal, or of this version",
        is_switch=True,
    ),
    Setting(
        "--claim-fingerprint",
        "measured",
        "",
        "the only manifest that is taken as the first, by its SHA-256: 64 hex digits",
    ),
    Setting(
        "--no-new-manifest-in-recovery",
        "measured",
        "",
        "in recovery mode take no new manifest in place of the state",
        is_switch=True,
    ),
    Setting(
        "--no-cancel-by-removed",
        "measured",
        "",
        "let no user cancel a pending update whose manifest removes that user",
        is_switch=True,
    ),
    Setting(
        "--pccs",
        "measured",
        "",
        "the PCCS to fetch collateral from, https://NAME:PORT, in place of --collateral",
    ),
    Setting(
        "--pccs-ca",
        "measured",
        "",
        "file with the only CA (PEM) that may vouch for the PCCS; without it the system's may",
    ),
    Setting(
        "--marble-certificate-days",
        "measured",
        "",
        "how long certificates of workloads are good, in days; without it as long as the"
        " coordinator's, 292 years",
    ),
    Setting(
        "--data-dir",
        "host",
        "keyhouse-data",
        "directory of the sealed state",
        ("KEYHOUSE_DATA_DIR", "EDG_COORDINATOR_SEAL_DIR"),
    ),
    Setting(
        "--client-addr",
        "host",
        f":{CLIENT_API_PORT}",
        "address of the Client API, HOST:PORT",
        ("KEYHOUSE_CLIENT_ADDR", "EDG_COORDINATOR_CLIENT_ADDR"),
    ),
    Setting(
        "--mesh-addr",
        "host",
        f":{WORKLOAD_API_PORT}",
        "address of the workload API, HOST:PORT",
        ("KEYHOUSE_MESH_ADDR", "EDG_COORDINATOR_MESH_ADDR"),
    ),
    Setting(
        "--metrics-addr",
        "host",
        "",
        "address for /metrics and /events, HOST:PORT, plain HTTP for everybody",
        ("KEYHOUSE_METRICS_ADDR", "EDG_COORDINATOR_PROMETHEUS_ADDR"),
    ),
    Setting(
        "--dns-names",
        "host",
        "localhost",
        "names and IP addresses for the certificates of a new deployment, comma-separated",
        ("KEYHOUSE_DNS_NAMES", "EDG_COORDINATOR_DNS_NAMES"),
    ),
    Setting(
        "--startup-manifest",
        "host",
        "",
        "manifest file to set at the start if none is set; one that is set has to be equal",
        ("KEYHOUSE_STARTUP_MANIFEST", "EDG_STARTUP_MANIFEST"),
    ),
    Setting(
        "--startup-recovery-file",
        "host",
        "",
        "file for the recovery secrets of the startup manifest, as setting it would answer them",
        ("KEYHOUSE_STARTUP_RECOVERY_FILE",),
    ),
    Setting(
        "--collateral",
        "host",
        "",
        "file of the collateral that verifies quotes, of workloads too, or directory with one such"
        " file for each kind of platform; read again when it changes; on the simulated platform its"
        " own if not given",
        ("KEYHOUSE_COLLATERAL",),
    ),
    Setting(
        "--amd-collateral",
        "host",
        "",
        "file, or directory of files, that verify reports of SEV-SNP beside AMD's roots: revocation"
        " lists and certificates as AMD gives them out; read for each report; on the simulated"
        " platform its own if not given",
        ("KEYHOUSE_AMD_COLLATERAL",),
    ),
    Setting(
        "--log-level",
        "host",
        "info",
        "debug, info, warning or error",
        ("KEYHOUSE_LOG_LEVEL",),
    ),
    Setting(
        "--log-format",
        "host",
        "auto",
        "text, json, or auto: text on a terminal, JSON otherwise",
        ("KEYHOUSE_LOG_FORMAT",),
    ),
    Setting(
        "--check-config",
        "host",
        "",
        "start nothing: check the settings and what they point to, say what is wrong, and end",
        is_switch=True,
    ),
    Setting("--json", "host", "", "print what --check-config finds as JSON", is_switch=True),
)

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "--platform": ("auto", "gramine", "tdx", "snp", "simulation"),
    "--curve": ("P-256", "P-384"),
    "--log-level": ("debug", "info", "warning", "error"),
    "--log-format": ("auto", "text", "json"),
}

_ADDRESSES: Final = frozenset({"--client-addr", "--mesh-addr", "--metrics-addr"})

# Switches of the environment: variable, the flag that it sets when it is "1", to what.
_SWITCHES: Final = (
    ("EDG_DEBUG_LOGGING", "--log-level", "debug"),
    ("EDG_COORDINATOR_DEV_MODE", "--log-format", "text"),
)

_LONGEST_PORT: Final = 5

_USAGE: Final = """keyhouse serve [--SETTING VALUE]...
       keyhouse serve --platform simulation --client-addr 127.0.0.1:4433   (try it out)"""

MOST_DAYS: Final = 36_500
"""Days that a certificate of a workload may be good for, if its time is chosen."""

_DAYS: Final = re.compile(r"[1-9][0-9]{0,4}")
_FINGERPRINT: Final = re.compile(r"[0-9A-Fa-f]{64}")


class Settings(msgspec.Struct, frozen=True):
    """The settings of one process."""

    platform: str
    curve: Literal["P-256", "P-384"]
    confirm_clock: bool
    claim_fingerprint: str  # lower case; empty: any manifest
    no_new_manifest_in_recovery: bool
    no_cancel_by_removed: bool
    pccs: str  # empty: none
    pccs_ca: Path | None
    marble_certificate_days: int | None  # None: as long as the coordinator's
    data_dir: Path
    client_host: str  # empty: every address of the machine
    client_port: int
    mesh_host: str  # empty: every address of the machine
    mesh_port: int
    metrics: tuple[str, int] | None  # host and port; None: off
    dns_names: str
    startup_manifest: Path | None
    startup_recovery_file: Path | None
    collateral: Path | None
    amd_collateral: Path | None
    log_level: str
    log_format: str
    notes: tuple[str, ...]  # for the log


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings of a `keyhouse serve` process.

    Raises:
        SettingRefusedError: a value that cannot be.
        SettingMisusedError: a command line that cannot be read.
    """
    given = read_flags(SETTINGS, arguments, usage=_USAGE, about="Run the coordinator.")
    _refuse_simulation_by_environment(environment)
    values: dict[str, str] = {}
    for setting in SETTINGS:
        value, source = _value(setting, given, environment)
        _check(setting, value, source, given=isinstance(given[_field(setting)], str))
        values[setting.flag] = value
    if given["json"] and not given["check_config"]:
        raise SettingRefusedError("--json has no effect here", hint="it goes with --check-config")
    _check_one_source(values)
    host, port = _address(values["--client-addr"])
    mesh_host, mesh_port = _address(values["--mesh-addr"])
    return Settings(
        platform=values["--platform"],
        curve="P-384" if values["--curve"] == "P-384" else "P-256",
        confirm_clock=bool(given["confirm_clock"]),
        claim_fingerprint=values["--claim-fingerprint"].lower(),
        no_new_manifest_in_recovery=bool(given["no_new_manifest_in_recovery"]),
        no_cancel_by_removed=bool(given["no_cancel_by_removed"]),
        pccs=values["--pccs"],
        pccs_ca=_path(values["--pccs-ca"]),
        marble_certificate_days=_days(values["--marble-certificate-days"]),
        data_dir=Path(values["--data-dir"]),
        client_host=host,
        client_port=port,
        mesh_host=mesh_host,
        mesh_port=mesh_port,
        metrics=_address(values["--metrics-addr"]) if values["--metrics-addr"] else None,
        dns_names=values["--dns-names"],
        startup_manifest=_path(values["--startup-manifest"]),
        startup_recovery_file=_path(values["--startup-recovery-file"]),
        collateral=_path(values["--collateral"]),
        amd_collateral=_path(values["--amd-collateral"]),
        log_level=values["--log-level"],
        log_format=values["--log-format"],
        notes=_notes(values),
    )


def _field(setting: Setting) -> str:
    return setting.flag.removeprefix("--").replace("-", "_")


def _value(
    setting: Setting, given: Mapping[str, object], environment: Mapping[str, str]
) -> tuple[str, str]:
    """Return the value of ``setting`` and the name of what it comes from."""
    flag = given[_field(setting)]
    if isinstance(flag, str):
        return flag, setting.flag
    for name in setting.variables:
        if environment.get(name):
            return environment[name], name
    for name, flag_it_sets, value in _SWITCHES:
        if flag_it_sets == setting.flag and environment.get(name) == "1":
            return value, name
    return setting.default, setting.flag


def _check(setting: Setting, value: str, source: str, *, given: bool) -> None:
    choices = _CHOICES.get(setting.flag)
    if choices and value not in choices:
        raise SettingRefusedError(
            f"{source} has a value that cannot be", hint=f"one of: {', '.join(choices)}"
        )
    if not value and (setting.default or given):
        default = f" for the default, {setting.default}" if setting.default else ""
        raise SettingRefusedError(f"{source} is empty", hint=f"leave it out{default}")
    if setting.flag == "--claim-fingerprint" and value and not _FINGERPRINT.fullmatch(value):
        raise SettingRefusedError(
            f"{source} is no fingerprint",
            hint="64 hex digits, as keyhouse manifest check prints them",
        )
    if setting.flag in _ADDRESSES and value and not _is_address(value):
        raise SettingRefusedError(f"{source} is no address", hint="HOST:PORT, or :PORT for all")


def _check_one_source(values: Mapping[str, str]) -> None:
    if values["--pccs"] and values["--collateral"]:
        raise SettingRefusedError(
            "collateral would come from two places", hint="give --pccs or --collateral, not both"
        )
    if values["--pccs-ca"] and not values["--pccs"]:
        raise SettingRefusedError("--pccs-ca has no effect here", hint="it goes with --pccs")


def _days(value: str) -> int | None:
    if not value:
        return None
    if not _DAYS.fullmatch(value) or int(value) > MOST_DAYS:
        raise SettingRefusedError(
            "--marble-certificate-days is no time that can be",
            hint=f"a whole number of days from 1 to {MOST_DAYS}",
        )
    return int(value)


def _path(value: str) -> Path | None:
    return Path(value) if value else None


def _is_address(text: str) -> bool:
    _, colon, port = text.rpartition(":")
    digits = port.isascii() and port.isdecimal() and len(port) <= _LONGEST_PORT
    return bool(colon) and digits and int(port) < 2**16


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, int(port)


def _refuse_simulation_by_environment(environment: Mapping[str, str]) -> None:
    if environment.get("OE_SIMULATION") == "1":
        raise SettingRefusedError(
            "OE_SIMULATION=1 has no effect here: no variable of the environment decides on trust",
            hint="unset it; for a simulation say --platform simulation",
        )


def _notes(values: Mapping[str, str]) -> tuple[str, ...]:
    notes: list[str] = []
    if values["--startup-recovery-file"] and not values["--startup-manifest"]:
        notes.append("--startup-recovery-file has no effect without --startup-manifest")
    return tuple(notes)
