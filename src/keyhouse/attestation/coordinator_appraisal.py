"""Compares the identity that a client expects with the verified quote of a coordinator."""

from collections.abc import Collection
from typing import NamedTuple

from keyhouse.attestation.appraisal import accept_advisories, accept_status
from keyhouse.attestation.errors import IdentityRefusedError, QuoteProblem, QuoteRefusedError
from keyhouse.attestation.identity import ExpectedIdentity
from keyhouse.attestation.kinds.table import read_form
from keyhouse.attestation.quote.binding import require_binding
from keyhouse.attestation.quote.report import Verdict, tee_of
from keyhouse.wire.kinds.identity import VmIdentity
from keyhouse.wire.tcb_status import TcbStatus

_VM = "confidential VM"


def appraise(verdict: Verdict, expected: ExpectedIdentity, *, binding: bytes) -> None:
    """Raise ``IdentityRefusedError`` unless ``verdict`` matches ``expected`` and binds ``binding``.

    ``binding``: the 32 bytes of ``quote_binding`` at the begin of the report data. The error names
    the first failed check in this order: TCB status, advisories, report data, the kind of
    environment, debug, unique id, signer id, product id, security version. For a confidential VM,
    the fields of its identity replace the last four. AMD states no TCB status; ``MinimumTCB``
    replaces the status. Sources: ``docs/reference/files.md``, "Attestation file";
    ``docs/reference/manifest.md``, "Sections".
    """
    if verdict.tee.states_tcb or verdict.tee is not tee_of(expected.vm):
        accept_tcb(
            verdict.tcb_status,
            verdict.advisories,
            accepted_statuses=expected.accepted_tcb_statuses,
            accepted_advisories=expected.accepted_advisories,
        )
    require_binding(verdict.report_data, binding)
    if verdict.tee is not tee_of(expected.vm):
        raise IdentityRefusedError(
            f"the quote describes {verdict.tee.in_words}, expected {tee_of(expected.vm).in_words}",
            hint="do not trust the coordinator; after a planned move, use its new attestation file",
        )
    if verdict.debug and (expected.vm is not None or not expected.debug):
        raise _mismatch(
            "Debug", "the coordinator is a debug enclave, whose memory the host can read"
        )
    if expected.vm is None:
        require_enclave(verdict, expected)
    else:
        _match_confidential_vm(verdict, expected.vm)


def _match_confidential_vm(verdict: Verdict, wanted: VmIdentity) -> None:
    if verdict.measurements is None:
        raise _mismatch(wanted.FIELD, "the quote has no measurements of a confidential VM", _VM)
    for each in verdict.measurements.differences(wanted):
        raise _mismatch(
            f"{wanted.FIELD}.{each.field}",
            f"the quote states {each.found}, expected {each.wanted}",
            _VM,
        )


class EnclaveCode(NamedTuple):
    """The code of an enclave, from a quote or from a leaf of a log."""

    mrenclave: bytes
    mrsigner: bytes
    isvprodid: int
    isvsvn: int


def require_enclave(code: EnclaveCode | Verdict, expected: ExpectedIdentity) -> None:
    """Raise ``IdentityRefusedError`` unless ``code`` is an enclave that ``expected`` accepts."""
    if expected.unique_id and code.mrenclave != expected.unique_id:
        raise _mismatch("UniqueID", _difference(code.mrenclave.hex(), expected.unique_id.hex()))
    if expected.signer_id and code.mrsigner != expected.signer_id:
        raise _mismatch("SignerID", _difference(code.mrsigner.hex(), expected.signer_id.hex()))
    if expected.product_id and code.isvprodid != expected.product_id:
        raise _mismatch("ProductID", _difference(code.isvprodid, expected.product_id))
    if code.isvsvn < expected.security_version:
        raise _mismatch(
            "SecurityVersion", _difference(code.isvsvn, f"{expected.security_version} or higher")
        )


def _difference(actual: object, wanted: object) -> str:
    return f"the enclave has {actual}, expected {wanted}"


def _mismatch(field: str, difference: str, what: str = "enclave") -> IdentityRefusedError:
    return IdentityRefusedError(
        f"the {what} is not the expected {what}: {field} does not match: {difference}",
        hint="do not trust the coordinator; after a planned update, use its new attestation file",
    )


def require_dcap(quote: bytes) -> None:
    """Raise ``QuoteRefusedError`` if ``quote``, of a coordinator, is a report of AMD.

    A client has no collateral of AMD. Only coordinators have it, to verify workloads.
    """
    if not read_form(quote).tee.states_tcb:
        raise QuoteRefusedError(
            QuoteProblem.WRONG_PLATFORM,
            "the coordinator attests with a report of SEV-SNP; so far only other coordinators"
            " verify such reports",
            hint="run the coordinator in SGX or TDX, so that clients can verify the coordinator",
        )


def accept_tcb(
    status: TcbStatus | None,
    advisories: Collection[str],
    *,
    accepted_statuses: Collection[str] = (),
    accepted_advisories: Collection[str] = (),
) -> None:
    """Raise ``IdentityRefusedError`` unless ``status`` and ``advisories`` are accepted.

    ``status`` and ``advisories`` are of a platform. The accepted values have the meaning of the
    same fields in a package. Source: ``docs/reference/manifest.md``, "Sections".
    """
    accept_status(status, accepted_statuses)
    accept_advisories(status, advisories, accepted_advisories)
