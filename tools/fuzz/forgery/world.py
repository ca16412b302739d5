"""The rightful vendors of quotes and collateral, a stranger, and all parts that they signed."""

import dataclasses
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from fuzz.forgery.case import ForgedCase, covered_by_collateral, covered_by_quote, parts_of_quote

from keyhouse.attestation import INTEL_SGX_ROOT, Collateral, TcbStatus, read_collateral
from keyhouse_simulation import Machine, QuoteParameters, SimulatedPlatform, make_machine
from keyhouse_simulation.certificates import issue_leaf, pck_extension
from keyhouse_simulation.parameters import (
    Lists,
    Pck,
    QeIdentity,
    QuotedEnclave,
    QuotedTd,
    TcbInfo,
    TdxLevel,
    TdxQuoteForm,
)

__all__ = ["NOW", "World", "make_world", "name_of"]

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
_RECORDED_AT: Final = 1751328000
_VECTORS: Final = Path(__file__).parents[3] / "tests" / "attestation" / "vectors"
_OTHER_KIND: Final = b"\x52\x22\x52\x22\x52\x22"
_OLD: Final = timedelta(days=20)
_BRIEF: Final = timedelta(days=5)


@dataclasses.dataclass(frozen=True)
class World:
    """One simulated vendor with three machines, a stranger with the same names, and Intel.

    All ``quotes`` and ``collaterals`` are genuine. The first quote belongs to the first collateral.
    Most of the remaining pairs do not belong together.
    """

    vendor: Machine
    neighbour: Machine  # second machine of the vendor, of the same kind
    foreign: Machine  # third machine of the vendor, of a different kind
    stranger: Machine  # machine of a different vendor with the same names
    attacker_key: ec.EllipticCurvePrivateKey
    quotes: tuple[bytes, ...]
    collaterals: tuple[Collateral, ...]
    vm_quotes: tuple[bytes, ...]  # of confidential VMs, in each form
    vm_collateral: Collateral
    strange_quote: bytes
    strange_collateral: Collateral
    recorded: tuple[ForgedCase, ...]

    @cached_property
    def root(self) -> bytes:
        """The pinned root of the simulated vendor, DER."""
        return self.vendor.root.public_bytes(Encoding.DER)

    @cached_property
    def signed(self) -> frozenset[bytes]:
        """Return all covered parts under ``root``."""
        of_quotes = {
            part
            for quote in (*self.quotes, *self.vm_quotes)
            for part in covered_by_quote(parts_of_quote(quote))
        }
        collaterals = (*self.collaterals, self.vm_collateral)
        of_all = {part for each in collaterals for part in covered_by_collateral(each)}
        return frozenset(of_quotes | of_all)

    @cached_property
    def genuine(self) -> tuple[ForgedCase, ...]:
        """Simulated quotes with their collateral. The verifier must accept each of them."""
        enclave = (self.quotes[0], self.collaterals[0])
        vms = ((quote, self.vm_collateral) for quote in self.vm_quotes)
        return tuple(
            ForgedCase(
                root=self.root,
                quote=quote,
                collateral=collateral,
                at=int(NOW.timestamp()),
                signed=self.signed,
                genuine=True,
            )
            for quote, collateral in (enclave, *vms)
        )


def name_of(machine: Machine) -> str:
    """Return the common name of the PCK CA. All simulated vendors use the same name."""
    return str(machine.pck_ca.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def make_world() -> World:
    """Return a world with new keys."""
    vendor, stranger = (make_machine(NOW - timedelta(days=30), Pck()) for _ in range(2))
    neighbour = _another(vendor, Pck(ppid=b"SIMULATED PPID 1"))
    foreign = _another(vendor, Pck(ppid=b"SIMULATED PPID 2", fmspc=_OTHER_KIND, pce_id=b"\0\1"))
    platforms = [SimulatedPlatform(vendor, each, now=lambda: NOW) for each in _parameters()]
    strange = SimulatedPlatform(stranger, now=lambda: NOW)
    return World(
        vendor=vendor,
        neighbour=neighbour,
        foreign=foreign,
        stranger=stranger,
        attacker_key=ec.generate_private_key(ec.SECP256R1()),
        quotes=(
            platforms[0].quote(bytes(64)),
            platforms[0].quote(b"\xff" * 64),
            *(_quote(machine, debug=False) for machine in (neighbour, foreign)),
            _quote(vendor, debug=True),
        ),
        collaterals=(
            *(each.collateral for each in platforms),
            *(each.td_collateral for each in platforms[1:]),
        ),
        vm_quotes=tuple(
            platforms[0].td_quote(QuotedTd(form=form), bytes(64)) for form in TdxQuoteForm
        ),
        vm_collateral=platforms[0].td_collateral,
        strange_quote=strange.quote(bytes(64)),
        strange_collateral=strange.collateral,
        recorded=_recorded(),
    )


def _quote(machine: Machine, *, debug: bool) -> bytes:
    parameters = QuoteParameters(enclave=QuotedEnclave(debug=debug))
    return SimulatedPlatform(machine, parameters, now=lambda: NOW).quote(b"\x01" * 64)


def _another(vendor: Machine, pck: Pck) -> Machine:
    """Return a new machine of ``vendor`` with new keys and the PCK content ``pck``."""
    key = ec.generate_private_key(ec.SECP256R1())
    start = vendor.pck.not_valid_before_utc
    issuer = (name_of(vendor), vendor.pck_ca_key)
    return msgspec.structs.replace(
        vendor,
        pck_key=key,
        attestation_key=ec.generate_private_key(ec.SECP256R1()),
        pck=issue_leaf(
            "Keyhouse Simulation PCK Certificate", key, issuer, start, pck_extension(pck)
        ),
    )


def _parameters() -> list[QuoteParameters]:
    """Return the content of collateral at different times and for different machines."""
    tcb, qe, lists = TcbInfo(), QeIdentity(), Lists()
    td, td_qe = TcbInfo(id="TDX", tdx=TdxLevel()), QeIdentity(id="TD_QE", product_id=2)
    old, revoked = TcbStatus.OUT_OF_DATE, TcbStatus.REVOKED
    replace = msgspec.structs.replace
    return [
        QuoteParameters(),
        QuoteParameters(
            tcb_info=replace(tcb, evaluation_number=2), qe_identity=replace(qe, evaluation_number=2)
        ),
        QuoteParameters(tcb_info=replace(tcb, fmspc=_OTHER_KIND, pce_id=b"\0\1")),
        QuoteParameters(tcb_info=replace(tcb, pce_id=b"\0\1")),
        QuoteParameters(tcb_info=replace(tcb, cpu_svn=bytes([3]) * 16)),
        *(QuoteParameters(tcb_info=replace(tcb, status=status)) for status in TcbStatus),
        QuoteParameters(qe_identity=replace(qe, status=TcbStatus.REVOKED)),
        QuoteParameters(qe_identity=replace(qe, security_version=9)),
        QuoteParameters(qe_identity=replace(qe, signer=b"ANOTHER QUOTING ENCLAVE'S SIGNER")),
        QuoteParameters(lists=replace(lists, revokes_pck=True)),
        QuoteParameters(lists=replace(lists, revokes_pck_ca=True)),
        QuoteParameters(lists=replace(lists, revokes_tcb_signer=True)),
        QuoteParameters(lists=replace(lists, issued_ago=_OLD, valid_for=_BRIEF)),
        QuoteParameters(tcb_info=replace(tcb, issued_ago=_OLD, valid_for=_BRIEF)),
        QuoteParameters(qe_identity=replace(qe, issued_ago=_OLD, valid_for=_BRIEF)),
        QuoteParameters(tcb_info=replace(tcb, issued_ago=-_BRIEF)),
        QuoteParameters(
            td_tcb_info=replace(td, evaluation_number=2),
            td_qe_identity=replace(td_qe, evaluation_number=2),
        ),
        QuoteParameters(td_tcb_info=replace(td, status=old)),
        QuoteParameters(td_tcb_info=replace(td, tdx=TdxLevel(module_status=old))),
        QuoteParameters(td_tcb_info=replace(td, tdx=TdxLevel(module_status=revoked))),
        QuoteParameters(td_tcb_info=replace(td, tdx=TdxLevel(module_version=6))),
        QuoteParameters(td_tcb_info=replace(td, tdx=TdxLevel(module_line=2))),
        QuoteParameters(td_tcb_info=replace(td, tdx=TdxLevel(module_signer=b"\1" * 48))),
        QuoteParameters(td_tcb_info=replace(td, tdx=TdxLevel(tee_tcb_svn=bytes([6] * 16)))),
        QuoteParameters(td_tcb_info=replace(td, fmspc=_OTHER_KIND, pce_id=b"\0\1")),
        QuoteParameters(td_qe_identity=replace(td_qe, status=revoked)),
        QuoteParameters(td_tcb_info=replace(td, issued_ago=_OLD, valid_for=_BRIEF)),
    ]


def _recorded() -> tuple[ForgedCase, ...]:
    """Return cases with quotes of real machines. The vendor is Intel, so cases share ``signed``."""
    found = []
    for name in ("sgx_quote", "tdx_quote"):
        bundle = (_VECTORS / f"{name}_collateral.json").read_bytes()
        found.append(((_VECTORS / name).read_bytes(), read_collateral(bundle)))
    signed = frozenset(
        part
        for quote, collateral in found
        for part in (*covered_by_quote(parts_of_quote(quote)), *covered_by_collateral(collateral))
    )
    return tuple(
        ForgedCase(INTEL_SGX_ROOT, quote, collateral, _RECORDED_AT, signed, genuine=True)
        for quote, collateral in found
    )
