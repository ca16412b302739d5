"""A hardware report has only listed fields, and nothing that identifies a machine or its owner."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from support.process.command_tree import typed
from support.samples.snp_vms import collateral as amd_collateral

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    QuoteProblem,
    QuoteRefusedError,
    Verdict,
    read_collateral,
)
from keyhouse.attestation.platforms.files import NoSealingKeyError
from keyhouse.attestation.platforms.find import SIMULATED_AMD
from keyhouse.attestation.platforms.platform import Platform
from keyhouse.base.errors import RefusedError
from keyhouse.base.secret import Secret
from keyhouse.cli.attest.quote_explanation import Explanation, QuoteTrust, explain_quote
from keyhouse.cli.doctor.hardware.attempts import attempt, reason_of, worst
from keyhouse.cli.doctor.hardware.enclave import EnclaveUnusableError, TrialEnclave
from keyhouse.cli.doctor.hardware.guest import skipped_trial, try_quote, try_seal
from keyhouse.cli.doctor.hardware.machine import machine
from keyhouse.cli.doctor.hardware.quotes import quote_section
from keyhouse.cli.doctor.hardware.report import (
    EnclaveSettings,
    HardwareReport,
    MachineKind,
    Section,
)
from keyhouse.client import TrustError
from keyhouse.wire.kinds.identity import VmIdentity
from keyhouse.wire.kinds.snp import SnpIdentity, SnpTcb
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse_simulation import SimulatedPlatform, make_machine

VECTORS = Path(__file__).parents[2] / "attestation" / "vectors"
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "report-on-your-hardware.md"
AT = datetime.fromtimestamp(1751328000, UTC)  # the collateral of the recorded quotes is valid
SIMULATED = SimulatedPlatform(make_machine(datetime.now(UTC)))


def explained(name: str) -> Explanation:
    """Return the explanation of a recorded quote of real hardware."""
    bundle = read_collateral((VECTORS / f"{name}_collateral.json").read_bytes())
    trust = QuoteTrust(INTEL_SGX_ROOT, bundle, {}, None)
    return explain_quote((VECTORS / name).read_bytes(), trust, AT, None)


def identifiers(verdict: Verdict) -> list[str]:
    """Return the values of a verdict that identify a machine, a build or an owner, in hex."""
    measured = verdict.measured
    values = [
        verdict.ppid,
        verdict.report_data,
        measured.mrenclave,
        measured.mrsigner,
        measured.mrtd,
        measured.measurement,
        *measured.rtmrs,
        *(value for _, value in measured.values),
    ]
    return [value.hex() for value in values if any(value)]


@pytest.mark.parametrize(
    ("name", "tee", "status"),
    [
        ("sgx_quote", "sgx", "ConfigurationAndSWHardeningNeeded"),
        ("tdx_quote", "tdx", "UpToDate"),
    ],
)
def test_the_section_of_a_real_quote_states_the_platform_and_no_identity(
    name: str, tee: str, status: str
) -> None:
    explanation = explained(name)
    verdict = explanation.verdict
    assert verdict is not None

    section = quote_section(explanation)
    written = msgspec.json.encode(section).decode()

    assert (section.outcome, section.tee, section.tcb_status) == ("passed", tee, status)
    assert section.fmspc == verdict.fmspc.hex()
    assert section.advisories == verdict.advisories
    assert len(identifiers(verdict)) > 2
    assert not [each for each in identifiers(verdict) if each in written]


def test_a_quote_without_collateral_states_the_reason_alone() -> None:
    trust = QuoteTrust(INTEL_SGX_ROOT, None, {}, None)
    quote = (VECTORS / "tdx_quote").read_bytes()
    section = quote_section(explain_quote(quote, trust, AT, None))

    assert (section.outcome, section.reason, section.verified) == ("failed", "no-collateral", False)
    assert (section.tee, section.debug, section.fmspc) == ("tdx", False, "")


VMS: dict[str, VmIdentity] = {
    "tdx": TdxIdentity(mrtd="ab" * 48),
    "snp": SnpIdentity(measurement="ab" * 48),
}


@pytest.mark.parametrize("name", VMS)
def test_the_quote_of_a_confidential_vm_is_made_and_verified(name: str) -> None:
    platform = SIMULATED.seen_by(VMS[name])
    quotes = []

    def trust(quote: bytes) -> QuoteTrust:
        quotes.append(quote)
        roots = SIMULATED.amd_roots
        return QuoteTrust(SIMULATED.root_ca, SIMULATED.td_collateral, roots, amd_collateral)

    section = try_quote(lambda: platform, trust)
    written = msgspec.json.encode(section).decode()

    assert (section.outcome, section.tee, section.verified) == ("passed", name, True)
    assert section.tcb_status == ("UpToDate" if name == "tdx" else "")
    assert (section.product, section.reported_tcb) == (
        (SIMULATED_AMD.product, SIMULATED_AMD.tcb) if name == "snp" else ("", None)
    )
    verdict = explain_quote(quotes[0], trust(quotes[0]), datetime.now(UTC), None).verdict
    assert verdict is not None
    assert len(identifiers(verdict)) > 2
    assert not [each for each in identifiers(verdict) if each in written]


def test_a_quote_that_does_not_verify_is_told_with_the_next_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def trust(_quote: bytes) -> QuoteTrust:
        return QuoteTrust(INTEL_SGX_ROOT, None, {}, None)

    section = try_quote(lambda: SIMULATED.seen_by(VMS["snp"]), trust)

    assert (section.outcome, section.reason) == ("failed", "no-collateral")
    assert "next step: pass --collateral" in capsys.readouterr().err


class _Vm:
    """A platform that seals nothing, as a confidential VM."""

    def sealing_key(self, _policy: object) -> Secret:
        raise NoSealingKeyError("the platform derives no sealing key")


def test_a_platform_without_sealing_keys_is_skipped_and_has_not_failed() -> None:
    vm: Any = _Vm()
    platform: Platform = vm
    section = try_seal(lambda: platform)

    assert (section.outcome, section.reason) == ("skipped", "no-sealing-key")
    assert [each.policy for each in section.policies] == ["ProductKey", "UniqueKey"]

    trial = skipped_trial(section, "platform-missing")
    assert (trial.platform, trial.seal) == ("", section)
    outcomes = {
        (each.outcome, each.reason) for each in (trial.start, trial.restart, trial.recovery)
    }
    assert outcomes == {("skipped", "platform-missing")}


HOST = "node17.rack4.example.com"
CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) for node17
stepping\t: 8
microcode\t: 0x2b000590

processor\t: 1
vendor_id\t: another
"""


def a_machine(folder: Path, **firmware: str) -> MachineKind:
    """Return the kind of a machine with these files of its firmware."""
    (folder / "proc").mkdir()
    (folder / "proc" / "cpuinfo").write_text(CPUINFO)
    files = folder / "sys" / "class" / "dmi" / "id"
    files.mkdir(parents=True)
    known = {"bios_vendor": "Vendor Inc.", "bios_version": "2.1b", "bios_date": "03/14/2026"}
    serials = {"product_serial": "SN-4711", "product_uuid": "4c4c4544-0042", "board_serial": "B-1"}
    for name, content in (known | serials | firmware).items():
        (files / name).write_text(f"{content}\n")
    release = f"6.8.0-45-{HOST}"
    return machine(folder, os.uname_result(("Linux", HOST, release, "#1 SMP", "x86_64")))


def test_the_kind_of_a_machine_is_copied_and_its_identity_is_not(tmp_path: Path) -> None:
    found = a_machine(tmp_path)

    assert found == MachineKind(
        architecture="x86_64",
        kernel="6.8.0",
        cpu_vendor="GenuineIntel",
        cpu_family="6",
        cpu_model="143",
        cpu_stepping="8",
        microcode="0x2b000590",
        firmware_vendor="Vendor Inc.",
        firmware_version="2.1b",
        firmware_date="03/14/2026",
    )
    written = msgspec.json.encode(found).decode()
    assert not [each for each in ("node17", "SN-4711", "4c4c4544", "B-1") if each in written]


@pytest.mark.parametrize(
    "text", ["for NODE17", "build at 192.0.2.8", "a:b", "x" * 65, "serial\x00", "fe80::1", "ä"]
)
def test_a_text_of_the_firmware_that_may_identify_is_withheld(tmp_path: Path, text: str) -> None:
    assert not a_machine(tmp_path, bios_version=text).firmware_version


def test_a_machine_without_files_has_no_firmware(tmp_path: Path) -> None:
    names = os.uname_result(("Linux", "m", "custom", "#1", "aarch64"))
    assert machine(tmp_path, names) == MachineKind(architecture="aarch64")


TEMPLATE = Path(__file__).parents[3] / "deploy" / "gramine" / "keyhouse.manifest.template"


def test_the_shipped_manifest_names_the_state_and_the_settings(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    text = TEMPLATE.read_text("utf-8").replace("{{ data_dir }}", str(state))
    rendered = re.sub(r"\{\{[^}]*\}\}", "1", text)
    (tmp_path / "keyhouse.manifest.sgx").write_text(rendered)

    enclave = TrialEnclave(tmp_path)

    assert enclave.state == state
    assert enclave.settings == EnclaveSettings("1G", 32, edmm=False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("loader.argv = [", "TOML"),
        ("loader.argv = []", "is not a manifest of Keyhouse"),
        ('loader.argv = ["--data-dir"]\nfs.mounts = []', "is not a manifest of Keyhouse"),
        (
            'loader.argv = ["--data-dir", "/d"]\nfs.mounts = [{path = "/d", uri = "file:none"}]',
            "none of the enclave does not exist",
        ),
    ],
)
def test_a_manifest_without_a_usable_state_directory_is_refused(
    tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "keyhouse.manifest.sgx").write_text(text)
    with pytest.raises(EnclaveUnusableError, match=problem):
        TrialEnclave(tmp_path)


def test_an_error_leaves_its_class_in_the_report_and_its_text_on_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise RefusedError("no route to 192.0.2.8", hint="check the network")

    section, found = attempt("connecting", fail)

    assert (section, found) == (Section(outcome="failed", reason="refused"), None)
    assert capsys.readouterr().err == (
        "connecting ...\n  failed: no route to 192.0.2.8\n  next step: check the network\n"
    )
    skipped, _ = attempt("reading", fail, {"connect": section})
    assert skipped == Section(outcome="skipped", reason="connect-failed")
    assert worst((Section(outcome="passed"), skipped, section)) is section


def test_the_reason_of_a_verifier_is_found_behind_a_distrusted_coordinator() -> None:
    distrust = TrustError("the coordinator at 192.0.2.8 is not trusted")
    distrust.__cause__ = QuoteRefusedError(QuoteProblem.REVOKED, "revoked")

    assert reason_of(distrust) == "revoked"
    assert reason_of(TrustError("at 192.0.2.8")) == TrustError.code


def fields(kind: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the names of all fields of ``kind`` and of the classes in it."""
    for field in msgspec.structs.fields(kind):
        yield field.encode_name
        for each in (field.type, *get_args(field.type)):
            if isinstance(each, type) and issubclass(each, msgspec.Struct):
                yield from fields(each)


def test_the_page_explains_every_field_of_the_report_and_no_other() -> None:
    listed = set(fields(HardwareReport)) - set(SnpTcb.__struct_encode_fields__)
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    explained_fields = {name for row in rows for name in re.findall("`([a-z_]+)`", row)}

    assert explained_fields == listed


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["localhost"], "HOST localhost has no effect here"),
        (["--cert", "alice.pem"], "--cert has no effect here"),
        (["--timeout", "5"], "--timeout has no effect here"),
        (["--platform", "gramine"], "--platform 'gramine' is unknown"),
        (["--platform", "snp", "--pccs", "https://a:1"], "--pccs has no effect here"),
        (["--enclave", "d", "--platform", "snp"], "both name the hardware"),
        (["--enclave", "d"], "no collateral: the quote of the enclave cannot be verified"),
    ],
)
def test_words_without_effect_are_refused_before_the_file_exists(
    words: list[str], problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    ended = typed("doctor", "--hardware-report", str(file), *words)

    assert (ended.exit_code, problem in ended.stderr) == (2, True), ended.stderr
    assert not file.exists()


@pytest.mark.parametrize("words", [["--enclave", "d"], ["--platform", "snp"]])
def test_the_options_need_a_report(words: list[str]) -> None:
    ended = typed("doctor", *words)
    assert (ended.exit_code, f"error: {words[0]} " in ended.stderr) == (2, True)
