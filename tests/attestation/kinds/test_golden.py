"""The values of each kind of evidence appear unchanged in events, answers and explanations.

The golden files are older than the table of kinds. ``RECORD_GOLDEN=1`` records the files again.
"""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

import msgspec
import pytest
from support.samples.confidential_vms import TDX
from support.samples.snp_vms import SNP, VM, collateral as simulated_amd

from keyhouse.attestation import (
    AMD_ROOTS,
    INTEL_SGX_ROOT,
    AmdCollateral,
    Collateral,
    Measurements,
    QuoteRefusedError,
    Verdict,
    Verifier,
    read_amd_collateral,
    read_collateral,
)
from keyhouse.attestation.kinds.snp.verify import marks_of_amd
from keyhouse.attestation.origin.rule import code_of, in_words
from keyhouse.base.errors import ForbiddenError, InvalidError
from keyhouse.cli.attest.group import _rows
from keyhouse.cli.attest.quote_explanation import QuoteTrust, explain_quote
from keyhouse.coordinator import ActivationRequest
from keyhouse.coordinator.core.events import Activated, Event, MarblesActivated
from keyhouse.coordinator.core.update_log import AuditTrail
from keyhouse.journal.chain import Codec
from keyhouse.manifest.check import check
from keyhouse.manifest.source.schema import manifest_schema
from keyhouse.server.services.activation_outcomes import Refusals
from keyhouse.server.services.activations import ActivationService
from keyhouse_simulation import SimulatedPlatform, make_machine
from keyhouse_simulation.parameters import Pck, QuotedTd

VECTORS: Final = Path(__file__).parents[1] / "vectors"
GOLDEN: Final = Path(__file__).parent / "golden"
INTEL_AT: Final = datetime.fromtimestamp(1751328000, UTC)
LISTED_AT: Final = datetime(2022, 12, 1, tzinfo=UTC)
LATER: Final = datetime(2025, 10, 1, tzinfo=UTC)
SIMULATED_AT: Final = datetime(2026, 6, 1, tzinfo=UTC)
NOW: Final = 1_800_000_000_000_000
AMD: Final = read_amd_collateral(
    (VECTORS / name).read_bytes() for name in ("snp_authorities.pem", "snp_lists.pem")
)
ENCLAVE: Final = Measurements(b"u" * 32, b"s" * 32, 5, 6)


class Evidence(NamedTuple):
    """A quote, and the data for its verification."""

    quote: bytes
    at: datetime
    intel: Collateral | None = None
    amd: AmdCollateral | None = None
    root: bytes = INTEL_SGX_ROOT
    amd_roots: Mapping[str, bytes] = AMD_ROOTS
    masked: bytes = b""  # bytes that differ for each simulated machine


def recorded(name: str, at: datetime, collateral: str = "") -> Evidence:
    intel = read_collateral((VECTORS / collateral).read_bytes()) if collateral else None
    return Evidence((VECTORS / name).read_bytes(), at, intel, AMD)


MACHINE: Final = SimulatedPlatform(make_machine(SIMULATED_AT, Pck()), now=lambda: SIMULATED_AT)


def simulated(quote: bytes, intel: Collateral | None = None) -> Evidence:
    roots = MACHINE.amd_roots
    chip = MACHINE.chip.chip_id
    return Evidence(quote, SIMULATED_AT, intel, simulated_amd, MACHINE.root_ca, roots, chip)


EVIDENCE: Final = {
    "sgx": recorded("sgx_quote", INTEL_AT, "sgx_quote_collateral.json"),
    "tdx": recorded("tdx_quote", INTEL_AT, "tdx_quote_collateral.json"),
    "snp-listed": recorded("snp_quote_listed", LISTED_AT),
    **{
        f"snp-{name}": recorded(f"snp_quote_{name}", LATER)
        for name in ("azure", "genoa", "turin", "vlek")
    },
    "snp-debug": recorded("snp_report_debug", LATER),
    "snp-alone": recorded("snp_report", LATER),
    "simulated-sgx": simulated(MACHINE.workload_quote(ENCLAVE, b"d" * 64), MACHINE.collateral),
    "simulated-tdx": simulated(MACHINE.td_quote(QuotedTd(), b"d" * 64), MACHINE.td_collateral),
    "simulated-snp": simulated(MACHINE.snp_quote(VM, b"d" * 64)),
}

PACKAGES: Final[dict[str, dict[str, Any]]] = {
    "enclave": {"UniqueID": "01" * 32, "AcceptedTCBStatuses": ["OutOfDate"]},
    "signed": {"SignerID": "73" * 32, "ProductID": 5, "SecurityVersion": 7},
    "debugged": {"Debug": True},
    "tdx": {"TDX": TDX},
    "tdx-other": {"TDX": {**TDX, "MRTD": "ab" * 48, "RTMR2": "00" * 48}},
    "snp": {"SNP": SNP},
    "snp-other": {
        "SNP": {
            **SNP,
            "HostData": "ab" * 32,
            "Product": "Milan",
            "MinimumTCB": {"Bootloader": 99, "TEE": 0, "SNP": 99, "Microcode": 84},
            "VMPL": 1,
            "SigningKey": "VLEK",
            "MinimumGuestSVN": 9,
        }
    },
}

WRONG: Final[dict[str, dict[str, Any]]] = {
    "tdx-empty": {"TDX": {}},
    "tdx-debug": {"TDX": {"MRTD": "00" * 48, "TDAttributes": "01" * 8, "XFAM": "00" * 8}},
    "tdx-both": {"TDX": TDX, "SNP": SNP, "UniqueID": "01" * 32, "Debug": True},
    "tdx-enclave": {"TDX": TDX, "SignerID": "01" * 32, "ProductID": 1, "SecurityVersion": 2},
    "tdx-digits": {"TDX": {**TDX, "RTMR1": "01"}},
    "snp-empty": {"SNP": {}},
    "snp-status": {"SNP": SNP, "AcceptedTCBStatuses": ["OutOfDate"], "AcceptedAdvisories": ["x"]},
    "snp-enclave": {"SNP": SNP, "SignerID": "01" * 32, "Debug": True},
    "snp-words": {"SNP": {**SNP, "Product": "genoa", "SigningKey": "ARK", "VMPL": 4}},
    "snp-floor": {"SNP": {**SNP, "MinimumTCB": {"FMC": 1}, "Policy": "1f000b0000000000"}},
}

WARNED: Final[dict[str, dict[str, Any]]] = {
    "tdx-open": {"TDX": {"MRTD": "01" * 48}},
    "tdx-zeros": {"TDX": {"MRTD": "01" * 48, "RTMR1": "00" * 48, "MROwner": "AB" * 48}},
    "snp-open": {
        "SNP": {name: SNP[name] for name in ("Measurement", "Product", "MinimumTCB")}
        | {"VMPL": 2, "FamilyID": "AB" * 16, "MinimumGuestSVN": 3},
    },
}


def manifest(packages: Mapping[str, Mapping[str, Any]]) -> bytes:
    marbles = {f"{name}-marble": {"Package": name} for name in packages}
    return json.dumps({"Packages": packages, "Marbles": marbles}).encode()


def activated(verdict: Verdict | None) -> Activated:
    """Return the event that the coordinator stores for an activation with this verdict."""
    current = SimpleNamespace(now=lambda: NOW)
    service = SimpleNamespace(_engine=SimpleNamespace(current=current))
    recipe = SimpleNamespace(
        marble_type="web", marble=SimpleNamespace(max_activations=1, renewal=None)
    )
    workload = SimpleNamespace(
        marble="the-uuid", verdict=verdict, signing=SimpleNamespace(names=("localhost",))
    )
    return ActivationService._activated(cast(Any, service), cast(Any, recipe), cast(Any, workload))


def refused(verdict: Verdict | None) -> str:
    refusals = Refusals(NOW)
    request = ActivationRequest(b"quote", b"csr", "web", "the-uuid")
    refusals.add(NOW, request, None, verdict, ForbiddenError("not admitted", hint="look"))
    return msgspec.json.encode(refusals.newest_first()).decode()


def recordings(verdict: Verdict | None) -> dict[str, Any]:
    """Return the bytes that a coordinator stores and sends about an activation."""
    event = MarblesActivated((activated(verdict),))
    trail = AuditTrail()
    trail.extend(event)
    return {
        "event": Codec[Any](Event).encode_checked(event).hex(),
        "audit": [line.decode() for line in trail.view().lines(0, 9)],
        "refusal": refused(verdict),
    }


def about(evidence: Evidence) -> dict[str, Any]:
    """Return all texts and bytes about the evidence."""
    trust = QuoteTrust(evidence.root, evidence.intel, evidence.amd_roots, evidence.amd)
    checked = check(manifest(PACKAGES), now=evidence.at).manifest
    explanation = explain_quote(evidence.quote, trust, evidence.at, checked)
    found: dict[str, Any] = {
        "explanation": msgspec.json.encode(explanation.as_json()).decode(),
        "rows": _rows(explanation),
    }
    verifier = Verifier(evidence.root, evidence.amd_roots)
    collateral = evidence.intel or evidence.amd
    assert collateral is not None
    try:
        verdict = verifier.verify(evidence.quote, collateral, evidence.at)
    except QuoteRefusedError as problem:
        return found | {"refused": [problem.reason, problem.message, problem.hint]}
    if isinstance(collateral, AmdCollateral):
        found["marks"] = msgspec.to_builtins(marks_of_amd(verdict))
    code = msgspec.json.encode(code_of(verdict, "1.0")).decode()
    return found | recordings(verdict) | {"code": code, "in words": in_words(verdict)}


def golden(name: str, found: Mapping[str, Any], masked: bytes = b"") -> None:
    """Compare ``found`` with its golden file."""
    text = json.dumps(found, indent=1, ensure_ascii=False, default=str) + "\n"
    if masked:
        text = text.replace(masked.hex(), "CHIP")
    path = GOLDEN / f"{name}.json"
    if os.environ.get("RECORD_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence_reaches_every_record_and_answer_unchanged(name: str) -> None:
    evidence = EVIDENCE[name]
    golden(name, about(evidence), evidence.masked)


def test_an_activation_without_a_quote_is_recorded_unchanged() -> None:
    golden("no-quote", recordings(None))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_package_is_refused_with_the_same_texts(name: str) -> None:
    with pytest.raises(InvalidError) as raised:
        check(manifest({"vm": WRONG[name]}), now=LATER)
    golden(f"refused-{name}", {"problems": list(map(msgspec.to_builtins, raised.value.problems))})


@pytest.mark.parametrize("name", WARNED)
def test_an_open_package_is_warned_of_with_the_same_texts(name: str) -> None:
    checked = check(manifest({"vm": WARNED[name]}), now=LATER)
    package = msgspec.json.encode(checked.manifest.packages["vm"]).decode()
    warnings = list(map(msgspec.to_builtins, checked.warnings))
    golden(f"warned-{name}", {"warnings": warnings, "package": package})


def test_the_schema_of_manifests_is_unchanged() -> None:
    golden("schema", manifest_schema())
