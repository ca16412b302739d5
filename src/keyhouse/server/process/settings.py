"""The settings of `keyhouse serve`: flags, environment variables and their checks."""

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from keyhouse.base.process.flags import (
    SettingRefusedError,
    file,
    host,
    measured,
    read_flags,
    read_values,
)
from keyhouse.base.secret import Secret
from keyhouse.server.process.origin_settings import ORIGIN_SETTINGS, Predecessors, origin_rule
from keyhouse.wire.ports import CLIENT_API_PORT, WORKLOAD_API_PORT

if TYPE_CHECKING:
    from keyhouse.attestation.origin.rule import OriginRule

MOST_DAYS: Final = 36_500
"""The longest selectable validity of workload certificates, in days (100 years)."""

_FINGERPRINT: Final = r"[0-9A-Fa-f]{64}"
_LONGEST_PORT: Final = 5  # digits

MOST_REPLICAS: Final = 64
"""The largest number of coordinators at one address. Each needs memory and database connections."""


class HostPort(NamedTuple):
    """An address for a listener."""

    host: str  # empty: all addresses of the machine
    port: int


class Replica(msgspec.Struct, frozen=True):
    """The number of a replica among several at one address, and the sockets that they share."""

    number: int = 0  # from 1; 0: a single process
    client_api: socket.socket | None = None
    workload_api: socket.socket | None = None


def _number(pattern: str, most: int, allowed: str) -> Callable[[str, str], int]:
    """Return a parser for numbers up to ``most``, with digits that match ``pattern``.

    ``allowed`` describes the permitted numbers in the error for any other value.
    """

    def read(value: str, source: str) -> int:
        if not re.fullmatch(pattern, value) or int(value) > most:
            raise SettingRefusedError(f"{source} has an invalid value", hint=f"pass {allowed}")
        return int(value)

    return read


_some_days = _number("[1-9][0-9]{0,4}", MOST_DAYS, f"a whole number of days from 1 to {MOST_DAYS}")
_replicas = _number("[1-9][0-9]?", MOST_REPLICAS, f"a whole number from 1 to {MOST_REPLICAS}")
_standbys = _number("[0-9]{1,2}", 99, "a whole number from 0 to 99")


def _days(value: str, source: str) -> int | None:
    return _some_days(value, source) if value else None


def _fingerprint(value: str, source: str) -> str:
    if value and not re.fullmatch(_FINGERPRINT, value):
        raise SettingRefusedError(
            f"{source} is not a fingerprint",
            hint="pass 64 hex digits, as keyhouse manifest check prints them",
        )
    return value.lower()


def _address(value: str, source: str) -> HostPort | None:
    if not value:
        return None
    host, colon, port = value.rpartition(":")
    digits = port.isascii() and port.isdecimal() and len(port) <= _LONGEST_PORT
    if not (colon and digits and int(port) < 2**16):
        raise SettingRefusedError(
            f"{source} is not an address", hint="pass HOST:PORT, or :PORT for all addresses"
        )
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return HostPort(host, int(port))


def _store(value: str, source: str) -> Secret | None:
    if not value:
        return None
    # Imported here, because few coordinators have a database.
    from keyhouse.journal.shared.url import has_password

    if source == "--store" and has_password(value):
        raise SettingRefusedError(
            "--store has a password, and every user of this machine could read it",
            hint="use --store-password-file, or the variable KEYHOUSE_STORE",
        )
    try:
        return Secret(value.encode())
    except UnicodeEncodeError:
        raise SettingRefusedError(
            f"{source} is not UTF-8", hint="encode each byte that is not UTF-8 as %XX"
        ) from None


SETTINGS: Final = (
    measured(
        "--platform",
        "auto, gramine, tdx, snp or simulation (which proves nothing and protects nothing)",
        "auto",
        choices=("auto", "gramine", "tdx", "snp", "simulation"),
    ),
    measured(
        "--curve",
        "P-256 or P-384, for the keys of a new deployment",
        "P-256",
        choices=("P-256", "P-384"),
    ),
    measured(
        "--confirm-clock",
        "start although the clock is more than a year ahead of the journal, or of the build of this"
        " version",
        is_switch=True,
    ),
    measured(
        "--claim-fingerprint",
        "SHA-256 of the only acceptable first manifest: 64 hex digits",
        read=_fingerprint,
    ),
    *ORIGIN_SETTINGS,
    measured(
        "--no-new-manifest-in-recovery",
        "in recovery mode accept no new manifest in place of the state",
        is_switch=True,
    ),
    measured(
        "--replace-lost-state",
        "with --store, accept a new manifest in place of a state that cannot be opened",
        is_switch=True,
    ),
    measured(
        "--begin-new-log",
        "replace the transparency log of this name (ORIGIN) by a new log, if the newest state is"
        " lost and witnesses do not continue the old log",
    ),
    measured(
        "--no-cancel-by-removed",
        "let no user cancel a pending update whose manifest removes that user",
        is_switch=True,
    ),
    measured("--pccs", "PCCS for collateral, https://NAME:PORT, instead of --collateral"),
    measured(
        "--pccs-ca",
        "file with the only CA (PEM) for the PCCS; default: the CAs of the system",
        read=file,
    ),
    measured(
        "--marble-certificate-days",
        "validity of workload certificates in days; default: 292 years, as the coordinator's"
        " certificates",
        read=_days,
    ),
    host(
        "--data-dir",
        "directory of the sealed state",
        "keyhouse-data",
        variables=("KEYHOUSE_DATA_DIR", "EDG_COORDINATOR_SEAL_DIR"),
        read=file,
    ),
    host(
        "--store",
        "PostgreSQL database of the state, for several coordinators:"
        " postgresql://USER@HOST/DATABASE; only the variable may contain a password",
        variables=("KEYHOUSE_STORE",),
        read=_store,
    ),
    host(
        "--store-password-file",
        "file whose first line is the password for --store",
        variables=("KEYHOUSE_STORE_PASSWORD_FILE",),
        read=file,
    ),
    host(
        "--store-standbys",
        "with --store, start and answer only if this many standbys of the database confirm each"
        " change (synchronous_standby_names)",
        "0",
        variables=("KEYHOUSE_STORE_STANDBYS",),
        read=_standbys,
    ),
    host(
        "--replicas",
        "number of coordinators on this machine that share the addresses, with --store; the second"
        " and later coordinators use subdirectories of --data-dir, and the ports after the port of"
        " --metrics-addr",
        "1",
        variables=("KEYHOUSE_REPLICAS",),
        read=_replicas,
    ),
    host(
        "--client-addr",
        "address of the Client API, HOST:PORT",
        f":{CLIENT_API_PORT}",
        variables=("KEYHOUSE_CLIENT_ADDR", "EDG_COORDINATOR_CLIENT_ADDR"),
        read=_address,
    ),
    host(
        "--mesh-addr",
        "address of the workload API, HOST:PORT",
        f":{WORKLOAD_API_PORT}",
        variables=("KEYHOUSE_MESH_ADDR", "EDG_COORDINATOR_MESH_ADDR"),
        read=_address,
    ),
    host(
        "--metrics-addr",
        "address for /metrics and /events, HOST:PORT, plain HTTP without authentication",
        variables=("KEYHOUSE_METRICS_ADDR", "EDG_COORDINATOR_PROMETHEUS_ADDR"),
        read=_address,
    ),
    host(
        "--dns-names",
        "names and IP addresses for the certificates of a new deployment, comma-separated",
        "localhost",
        variables=("KEYHOUSE_DNS_NAMES", "EDG_COORDINATOR_DNS_NAMES"),
    ),
    host(
        "--startup-manifest",
        "manifest file to set at the start if no manifest is set; an existing manifest has to equal"
        " this file",
        variables=("KEYHOUSE_STARTUP_MANIFEST", "EDG_STARTUP_MANIFEST"),
        read=file,
    ),
    host(
        "--startup-recovery-file",
        "file for the recovery secrets of the startup manifest, in the format of the answer",
        variables=("KEYHOUSE_STARTUP_RECOVERY_FILE",),
        read=file,
    ),
    host(
        "--collateral",
        "file with collateral for the verification of quotes, or directory with one file per kind"
        " of platform; the coordinator notices changed files; default on the simulated platform:"
        " its own collateral",
        variables=("KEYHOUSE_COLLATERAL",),
        read=file,
    ),
    host(
        "--amd-collateral",
        "file or directory with AMD's revocation lists and certificates, for the verification of"
        " SEV-SNP reports; the coordinator reads the files for each report; default on the"
        " simulated platform: its own collateral",
        variables=("KEYHOUSE_AMD_COLLATERAL",),
        read=file,
    ),
    host(
        "--log-level",
        "debug, info, warning or error",
        "info",
        variables=("KEYHOUSE_LOG_LEVEL",),
        choices=("debug", "info", "warning", "error"),
    ),
    host(
        "--log-format",
        "text, json, or auto: text on a terminal, JSON otherwise",
        "auto",
        variables=("KEYHOUSE_LOG_FORMAT",),
        choices=("auto", "text", "json"),
    ),
    host(
        "--check-config",
        "check the settings and the files and services that they name, print problems, and end",
        is_switch=True,
    ),
    host("--json", "print the findings of --check-config as JSON", is_switch=True),
)

# Variables that act as switches: with the value "1", each implies the value of another variable.
_SWITCHES: Final = (
    ("EDG_DEBUG_LOGGING", "KEYHOUSE_LOG_LEVEL", "debug"),
    ("EDG_COORDINATOR_DEV_MODE", "KEYHOUSE_LOG_FORMAT", "text"),
)

_SHARED: Final = "several coordinators share a database, see --store"
_SEALED: Final = "the processor seals the state, no cloud service does"
_WITHOUT_EFFECT: Final = (
    ("EDG_DISTRIBUTED_COORDINATOR", _SHARED),
    ("EDG_K8S_", f"no state is in Secrets of Kubernetes; {_SHARED}"),
    ("EDG_STORE_BACKEND", _SHARED),
    ("EDG_AZURE_", _SEALED),
    ("EDG_MAA_URL", f"{_SEALED}; clients verify quotes themselves"),
)
"""Variables of MarbleRun that people set, by their prefixes, with the reason for no effect."""

_USAGE: Final = """keyhouse serve [--SETTING VALUE]...
       keyhouse serve --platform simulation --client-addr 127.0.0.1:4433   (try it out)"""


class Settings(msgspec.Struct, frozen=True):
    """The settings of a coordinator process, from flags and variables."""

    platform: str
    curve: Literal["P-256", "P-384"]
    confirm_clock: bool
    claim_fingerprint: str  # lower case; empty: any manifest
    predecessors: Predecessors | None  # None: depends on the claim
    origin_tcb: tuple[str, ...]
    origin_platforms: tuple[str, ...]  # empty: any
    adopt_root: str  # lower case; empty: none
    no_new_manifest_in_recovery: bool
    replace_lost_state: bool
    begin_new_log: str  # origin of the log to give up; empty: none
    no_cancel_by_removed: bool
    pccs: str  # empty: none
    pccs_ca: Path | None
    marble_certificate_days: int | None  # None: the coordinator's own period
    data_dir: Path
    store: Secret | None  # URL; None: a state in the directory
    store_password_file: Path | None
    store_standbys: int  # 0: not required
    replicas: int
    client_addr: HostPort
    mesh_addr: HostPort
    metrics_addr: HostPort | None  # None: off
    dns_names: str
    startup_manifest: Path | None
    startup_recovery_file: Path | None
    collateral: Path | None
    amd_collateral: Path | None
    log_level: str
    log_format: str
    check_config: bool
    json: bool
    notes: tuple[str, ...]  # for the log
    replica: Replica = Replica()

    @property
    def state_dir(self) -> Path:
        """The directory of this process alone, as an absolute path."""
        folder, number = self.data_dir.absolute(), self.replica.number
        return folder / f"replica-{number}" if number > 1 else folder

    def of_replica(self, replica: Replica) -> "Settings":
        """Return the settings of the process ``replica``, with its own port for metrics."""
        metrics = self.metrics_addr
        if metrics is not None and metrics.port:
            metrics = HostPort(metrics.host, metrics.port + replica.number - 1)
        return msgspec.structs.replace(self, replica=replica, metrics_addr=metrics)

    @property
    def origin(self) -> "OriginRule":
        """The rule about the code that may have made a root and its line."""
        return origin_rule(
            self.predecessors,
            self.origin_tcb,
            self.origin_platforms,
            self.adopt_root,
            is_claimed=bool(self.claim_fingerprint),
        )

    @property
    def database(self) -> Secret | None:
        """The URL of the store with its password. Raises ``SettingRefusedError``."""
        if self.store is None:
            return None
        from keyhouse.journal.shared.url import store_url
        from keyhouse.journal.store.postgres_address import StoreUrlError

        try:
            url = self.store.reveal().decode()
            return store_url(url, self.store_password_file, self.store_standbys)
        except StoreUrlError as wrong:
            raise SettingRefusedError(f"--store: {wrong.message}", hint=wrong.hint) from None


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings of a `keyhouse serve` process, from its command line and environment.

    Raises:
        SettingRefusedError: a value is invalid, or two values contradict each other.
        SettingMisusedError: the command line cannot be parsed.
    """
    given = read_flags(SETTINGS, arguments, usage=_USAGE, about="Run the coordinator.")
    _refuse_simulation_by_environment(environment)
    implied = {name: value for switch, name, value in _SWITCHES if environment.get(switch) == "1"}
    named = {name: value for name, value in environment.items() if value}
    values = read_values(SETTINGS, given, implied | named)
    if values["json"] and not values["check_config"]:
        raise SettingRefusedError.no_effect("--json", "use it together with --check-config")
    if values["pccs"] and values["collateral"]:
        raise SettingRefusedError(
            "--pccs and --collateral both name a source of collateral",
            hint="omit --pccs or --collateral",
        )
    if values["pccs_ca"] and not values["pccs"]:
        raise SettingRefusedError.no_effect("--pccs-ca", "use it together with --pccs")
    _check_store(values)
    _check_new_log(values)
    _check_replicas(values)
    if values["adopt_root"] and values["claim_fingerprint"]:
        raise SettingRefusedError(
            "--adopt-root and --claim-fingerprint contradict each other: an adopted root does not"
            " prove its first manifest",
            hint="omit --adopt-root or --claim-fingerprint",
        )
    return Settings(**values, notes=_notes(values, environment))


def _check_store(values: Mapping[str, Any]) -> None:
    for name in ("store_password_file", "store_standbys", "replace_lost_state"):
        if values[name] and values["store"] is None:
            flag = "--" + name.replace("_", "-")
            raise SettingRefusedError.no_effect(flag, "use it together with --store")
    if values["replace_lost_state"] and values["no_new_manifest_in_recovery"]:
        raise SettingRefusedError(
            "--replace-lost-state and --no-new-manifest-in-recovery contradict each other",
            hint="omit --replace-lost-state or --no-new-manifest-in-recovery",
        )


def _check_new_log(values: Mapping[str, Any]) -> None:
    if values["begin_new_log"] and values["store"] is not None:
        raise SettingRefusedError(
            "--begin-new-log is not supported together with --store yet",
            hint="omit --begin-new-log: all coordinators of the database share one log",
        )


def _check_replicas(values: Mapping[str, Any]) -> None:
    replicas, metrics = values["replicas"], values["metrics_addr"]
    if replicas > 1 and values["store"] is None:
        raise SettingRefusedError(
            "--replicas needs a shared store", hint="name a database with --store"
        )
    if metrics is not None and metrics.port and metrics.port + replicas > 2**16:
        raise SettingRefusedError(
            "--metrics-addr leaves too few ports for the replicas", hint="choose a lower port"
        )


def _refuse_simulation_by_environment(environment: Mapping[str, str]) -> None:
    if environment.get("OE_SIMULATION") == "1":
        raise SettingRefusedError(
            "OE_SIMULATION=1 has no effect here: no variable of the environment decides on trust",
            hint="unset the variable; for a simulation use --platform simulation",
        )


def _notes(values: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[str, ...]:
    notes: list[str] = []
    if values["startup_recovery_file"] and not values["startup_manifest"]:
        notes.append("--startup-recovery-file has no effect without --startup-manifest")
    for variable in sorted(environment):
        for prefix, reason in _WITHOUT_EFFECT:
            if variable.startswith(prefix):
                notes.append(f"{variable} has no effect: {reason}")
    return tuple(notes)
