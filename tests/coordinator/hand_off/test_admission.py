"""The admission of confidential VMs by ``Config.Replicas``."""

import msgspec
import pytest
from support.samples.machines import NOW, SETTINGS, machines

from keyhouse.attestation import Verdict, Verifier, read_amd_collateral
from keyhouse.coordinator.hand_off.admission import Own, require_admitted
from keyhouse.coordinator.hand_off.notes import NoteProblem, NoteRefusedError
from keyhouse.manifest import Package, Replicas
from keyhouse.wire.kinds.snp import SnpIdentity, SnpTcb
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse_simulation import QuotedTd, SimulatedPlatform, amd_vendor

KERNEL, OTHER = b"kernel".ljust(48), b"other".ljust(48)
MEASURED = QuotedTd(rtmrs=(b"0" * 48, KERNEL, KERNEL, bytes(48)))
PLATFORM = SimulatedPlatform(machines()[0], now=lambda: NOW)


def td(vm: QuotedTd = MEASURED) -> Verdict:
    quote = PLATFORM.td_quote(vm, bytes(64))
    return Verifier(PLATFORM.root_ca).verify(quote, PLATFORM.td_collateral, NOW)


def bent(**fields: object) -> Verdict:
    return td(msgspec.structs.replace(MEASURED, **fields))


def refused(verdict: Verdict, replicas: Replicas, own: Verdict) -> str:
    """Return the reason to refuse ``verdict``, or ""."""
    try:
        require_admitted(verdict, replicas, Own(own, SETTINGS))
    except NoteRefusedError as error:
        return error.reason
    return ""


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (MEASURED, ""),
        (msgspec.structs.replace(MEASURED, mrtd=OTHER), "code"),
        (msgspec.structs.replace(MEASURED, mrconfigid=OTHER), "code"),
        (msgspec.structs.replace(MEASURED, rtmrs=(b"0" * 48, KERNEL, OTHER, bytes(48))), "code"),
    ],
    ids=["the same", "firmware", "set by the host", "command line"],
)
def test_without_code_exactly_the_same_vm_is_admitted(found: QuotedTd, reason: str) -> None:
    assert refused(td(found), Replicas(), td()) == reason


@pytest.mark.parametrize("zero", [1, 2])
def test_a_vm_whose_boot_measured_nothing_is_not_the_same_as_another(zero: int) -> None:
    rtmrs = [b"0" * 48, KERNEL, KERNEL, bytes(48)]
    rtmrs[zero] = bytes(48)
    verdict = bent(rtmrs=tuple(rtmrs))
    assert refused(verdict, Replicas(), verdict) == NoteProblem.CODE


def test_a_vm_is_admitted_by_what_is_listed() -> None:
    listed = Replicas(code=(Package(tdx=TdxIdentity(mrtd=MEASURED.mrtd.hex())),))
    assert refused(td(), listed, td()) == ""
    assert refused(bent(mrtd=OTHER), listed, td()) == NoteProblem.CODE


def test_an_enclave_is_not_the_same_as_a_vm() -> None:
    enclave = Verifier(PLATFORM.root_ca).verify(PLATFORM.quote(bytes(64)), PLATFORM.collateral, NOW)
    assert refused(enclave, Replicas(), td()) == NoteProblem.CODE
    assert refused(td(), Replicas(), enclave) == NoteProblem.CODE


def test_a_lower_security_version_of_the_same_code_is_refused() -> None:
    enclave = Verifier(PLATFORM.root_ca).verify(PLATFORM.quote(bytes(64)), PLATFORM.collateral, NOW)
    newer = msgspec.structs.replace(enclave, isvsvn=enclave.isvsvn + 1)
    assert refused(newer, Replicas(), enclave) == ""
    assert refused(enclave, Replicas(), newer) == NoteProblem.CODE


def test_a_vm_of_amd_is_admitted_by_an_entry_alone() -> None:
    said = amd_vendor.ASK + amd_vendor.VLEK_AUTHORITY + amd_vendor.LIST
    verifier = Verifier(PLATFORM.root_ca, PLATFORM.amd_roots)
    quote = PLATFORM.snp_quote(None, bytes(64))
    verdict = verifier.verify(quote, read_amd_collateral([said.encode()]), NOW)
    measurement = PLATFORM._parameters.snp.measurement.hex()

    def listed(microcode: int) -> Replicas:
        tcb = SnpTcb(bootloader=10, tee=0, snp=23, microcode=microcode)
        identity = SnpIdentity(measurement=measurement, product="Genoa", minimum_tcb=tcb)
        return Replicas(code=(Package(snp=identity),))

    assert refused(verdict, Replicas(), verdict) == NoteProblem.CODE
    assert refused(verdict, listed(84), verdict) == ""
    assert refused(verdict, listed(85), verdict) == NoteProblem.CODE
