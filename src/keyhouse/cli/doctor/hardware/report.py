"""The fields of a hardware report.

A report leaves the machine of its owner, so it must not identify the machine. These classes list
every field of the file, and code copies each field by name. No field has the name of a host, an
address, a path, a serial number, a PPID, a CHIP_ID, a measurement, a quote, a certificate or a key.
``docs/how-to/report-on-your-hardware.md`` explains each field to its readers.
"""

from datetime import datetime
from typing import Literal

import msgspec

from keyhouse.wire.kinds.snp import SnpTcb

FORMAT = "keyhouse hardware report v1"

Outcome = Literal["passed", "failed", "skipped"]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a step of the trial. ``reason`` is a stable word, empty if the step passed."""

    outcome: Outcome
    reason: str = ""


class Versions(msgspec.Struct, frozen=True):
    """Versions of the programs; empty for an unknown version."""

    keyhouse: str
    python: str
    openssl: str
    cryptography_openssl: str  # the OpenSSL in the package cryptography
    dcap_qvl: str


class MachineKind(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of machine; empty for an unknown or withheld value."""

    architecture: str = ""
    kernel: str = ""  # the numbers only: an owner may add a name to the release
    cpu_vendor: str = ""
    cpu_family: str = ""
    cpu_model: str = ""
    cpu_stepping: str = ""
    microcode: str = ""
    firmware_vendor: str = ""
    firmware_version: str = ""
    firmware_date: str = ""


class EnclaveSettings(msgspec.Struct, frozen=True):
    """Settings in Gramine's manifest of the enclave that affect start times and memory.

    None means that Gramine's manifest does not have the setting.
    """

    enclave_size: str  # as in the manifest, such as 1G
    max_threads: int | None
    edmm: bool | None


class QuoteSection(Section, frozen=True, kw_only=True):
    """The statements of a quote, and of its verification."""

    tee: str = ""
    verified: bool = False
    debug: bool | None = None
    tcb_status: str = ""
    advisories: tuple[str, ...] = ()
    tcb_date: datetime | None = None
    fmspc: str = ""  # hex, 6 bytes: a family of platforms, not a machine
    evaluation_number: int | None = None
    collateral_issued: datetime | None = None
    collateral_expires: datetime | None = None
    product: str = ""  # of SEV-SNP: Milan, Genoa or Turin
    reported_tcb: SnpTcb | None = None  # of SEV-SNP


class SealPolicySection(Section, frozen=True, kw_only=True):
    """The outcome of sealing with the policy ``policy``: ``ProductKey`` or ``UniqueKey``."""

    policy: str


class SealSection(Section, frozen=True, kw_only=True):
    """The outcome of sealing: for each policy, whether a restarted coordinator opened its state."""

    policies: tuple[SealPolicySection, ...] = ()


class StartSection(Section, frozen=True, kw_only=True):
    """The times of a start of the coordinator, in milliseconds from the start of the process."""

    serving_ms: int | None = None  # until the process logs that it serves
    first_answer_ms: int | None = None  # until the first answer after verification


class RestartSection(StartSection, frozen=True, kw_only=True):
    """A stop of the coordinator, and a start with the stored state.

    ``stop_ms`` is the time of the stop in milliseconds.
    """

    stop_ms: int | None = None


class RecoverySection(StartSection, frozen=True, kw_only=True):
    """A start without the sealed key, and the recovery with a recovery key."""

    recovery_ms: int | None = None  # from the request for the offer to the accepted share


class MemorySection(Section, frozen=True, kw_only=True):
    """The resident memory of the trial's first coordinator process in KiB."""

    rss_before_kib: int | None = None  # at the first answer
    rss_after_kib: int | None = None  # with a manifest and a secret


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a trial with coordinator processes on ``platform``."""

    platform: str
    seal: SealSection
    start: StartSection
    restart: RestartSection
    recovery: RecoverySection
    memory: MemorySection


class HardwareReport(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a hardware report (`keyhouse doctor --hardware-report FILE`)."""

    format: str = FORMAT
    date: str  # UTC, without the time of day
    platform: str  # gramine, tdx, snp or simulation
    simulated: bool
    ok: bool  # no section failed
    versions: Versions
    machine: MachineKind
    enclave: EnclaveSettings | None  # of SGX only
    quote: QuoteSection
    coordinator: Trial


def sections_of(report: HardwareReport) -> dict[str, Section]:
    """Return the sections by name, in the order of the file."""
    trial = report.coordinator
    return {
        "quote": report.quote,
        "seal": trial.seal,
        "start": trial.start,
        "restart": trial.restart,
        "recovery": trial.recovery,
        "memory": trial.memory,
    }
