"""The simulated platform with the interface of the hardware platforms."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.attestation import (
    Collateral,
    ExpectedIdentity,
    Measurements,
    Platform,
    SealPolicy,
    TcbStatus,
    Tee,
)
from keyhouse.attestation.platforms.find import SIMULATED_AMD
from keyhouse.attestation.platforms.gramine import DEV_ATTESTATION
from keyhouse.base.secret import Secret
from keyhouse.wire.kinds.identity import VmIdentity
from keyhouse.wire.kinds.snp import SnpIdentity
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse_simulation import amd_vendor
from keyhouse_simulation.machine import Machine
from keyhouse_simulation.paperwork import issue_collateral
from keyhouse_simulation.parameters import QuotedEnclave, QuotedSnp, QuotedTd, QuoteParameters
from keyhouse_simulation.quote import QuoteWriter, TdQuoteWriter

if TYPE_CHECKING:
    from keyhouse_simulation.snp import SnpChip

Clock = Callable[[], datetime]

_SEALING = b"keyhouse simulation sealing v1\0"


def utc_now() -> datetime:
    """Return the current time, UTC."""
    return datetime.now(UTC)


class SimulatedPlatform:
    """A ``Platform`` that protects nothing: its keys are in memory and in a file.

    ``parameters`` determine the quotes. Dates of ``collateral`` count from ``now()``; without
    ``collateral`` the platform issues new collateral. The coordinator on this platform is an
    enclave, or the confidential VM ``vm``.
    """

    kind: Final = "simulation"

    def __init__(
        self,
        machine: Machine,
        parameters: QuoteParameters | None = None,
        *,
        now: Clock = utc_now,
        collateral: Collateral | None = None,
        vm: TdxIdentity | None = None,
    ) -> None:
        self._machine = machine
        self._parameters = parameters or QuoteParameters()
        self._now = now
        self._vm = vm
        self._writer = QuoteWriter(machine, self._parameters.quoting_enclave)
        self.root_ca: Final = machine.root.public_bytes(Encoding.DER)
        self.collateral: Final = collateral or issue_collateral(machine, self._parameters, now())

    @property
    def amd_roots(self) -> Mapping[str, bytes]:
        """The root of the simulated AMD, DER."""
        return {SIMULATED_AMD.product: amd_vendor.ROOT_DER}

    @property
    def measurements(self) -> Measurements:
        """The measurements in the quotes: fixed values, not real measurements."""
        return self._parameters.enclave.measurements

    @property
    def is_library_os(self) -> bool:
        """Whether this process runs under Gramine, with or without an enclave."""
        return DEV_ATTESTATION.exists()

    @cached_property
    def td_collateral(self) -> Collateral:
        """The collateral for quotes of confidential VMs: new, with the lists of ``collateral``."""
        issued = issue_collateral(self._machine, self._parameters, self._now(), Tee.TDX)
        root_list, pck_list = self.collateral.root_ca_crl, self.collateral.pck_crl
        return msgspec.structs.replace(issued, root_ca_crl=root_list, pck_crl=pck_list)

    @property
    def coordinator(self) -> Platform:
        """This machine from the coordinator's view: from an enclave, or from a confidential VM."""
        return self if self._vm is None else self.seen_by(self._vm)

    @property
    def expected_identity(self) -> ExpectedIdentity:
        """The identity that clients should expect on this platform."""
        if self._vm is not None:
            return ExpectedIdentity(tdx=self._vm, accepted_tcb_statuses=(TcbStatus.UP_TO_DATE,))
        who = self.measurements
        return ExpectedIdentity(
            unique_id=who.unique_id,
            signer_id=who.signer_id,
            product_id=who.product_id,
            security_version=who.security_version,
            accepted_tcb_statuses=(TcbStatus.UP_TO_DATE,),
        )

    def quote(self, report_data: bytes) -> bytes:
        """Return a raw quote of the coordinator over exactly 64 bytes of ``report_data``."""
        return self._writer.quote(self._parameters.enclave, report_data)

    def seen_by(self, workload: Measurements | VmIdentity) -> Platform:
        """Return the same machine from the view of this enclave or confidential VM."""
        if isinstance(workload, TdxIdentity):
            from keyhouse_simulation.confidential_vm import SimulatedVm, vm_named

            vm = vm_named(workload, self._parameters.td)
            return SimulatedVm(lambda data: self.td_quote(vm, data), self)
        if isinstance(workload, SnpIdentity):
            from keyhouse_simulation.confidential_vm import SimulatedSnpVm
            from keyhouse_simulation.snp import snp_vm_named

            snp = snp_vm_named(workload, self._parameters.snp)
            return SimulatedSnpVm(lambda data: self.snp_quote(snp, data), self)
        if not isinstance(workload, Measurements):
            raise TypeError(f"the simulated machine has no VMs of {workload.FIELD}")
        enclave = QuotedEnclave(measurements=workload)
        parameters = msgspec.structs.replace(self._parameters, enclave=enclave)
        return type(self)(self._machine, parameters, collateral=self.collateral)

    def workload_quote(self, measurements: Measurements, report_data: bytes) -> bytes:
        """Return a raw quote of a workload on this machine with these ``measurements``."""
        return self._writer.quote(QuotedEnclave(measurements=measurements), report_data)

    def td_quote(self, vm: QuotedTd | None, report_data: bytes) -> bytes:
        """Return a raw quote of a confidential VM; the default VM is in the parameters."""
        return self._td_writer.quote(vm or self._parameters.td, report_data)

    def snp_quote(self, vm: QuotedSnp | None, report_data: bytes) -> bytes:
        """Return a SEV-SNP report of a VM on this machine, with certificates."""
        return self.chip.quote(vm or self._parameters.snp, report_data)

    @cached_property
    def chip(self) -> "SnpChip":
        """The chip that signs the SEV-SNP reports."""
        from keyhouse_simulation.snp import SnpChip

        return SnpChip(self._machine)

    @cached_property
    def _td_writer(self) -> TdQuoteWriter:
        return TdQuoteWriter(self._machine, self._parameters.td_quoting_enclave)

    def sealing_key(self, policy: str) -> Secret:
        """Return the 32-byte key of ``policy``: HKDF-SHA256 of the sealing root, per identity."""
        who = self.measurements
        if SealPolicy(policy) is SealPolicy.UNIQUE_KEY:
            identity = b"unique\0" + who.unique_id
        else:
            identity = b"product\0" + who.signer_id + who.product_id.to_bytes(2, "little")
        derivation = HKDF(hashes.SHA256(), 32, salt=None, info=_SEALING + identity)
        return Secret(derivation.derive(self._machine.sealing_root.reveal()))
