"""Decides whether a package admits the enclave or VM of a verified quote.

The rules follow the order of ``docs/reference/manifest.md``, "Sections". Each rule has the name of
its field: TCB status, advisories, the binding of the quote, the kind of environment, and the
identity. The quote must have been verified. The verifier refuses debug enclaves, so a package with
``Debug`` matches no quote.
"""

from collections.abc import Callable, Collection, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from keyhouse.attestation.errors import IdentityRefusedError
from keyhouse.attestation.quote.binding import require_binding
from keyhouse.attestation.quote.report import Tee, Verdict, tee_of
from keyhouse.wire.kinds.identity import VmIdentity
from keyhouse.wire.tcb_status import TcbStatus

if TYPE_CHECKING:
    from keyhouse.wire.package import Package

_DEFAULT = (TcbStatus.SW_HARDENING_NEEDED,)


def accept_status(status: TcbStatus | None, accepted: Collection[str]) -> None:
    """Raise ``IdentityRefusedError`` unless ``status`` is accepted.

    ``UpToDate`` is always accepted, and ``Revoked`` never. Any other status must be in
    ``accepted``. An empty ``accepted`` stands for ``SWHardeningNeeded``. The status is None if the
    vendor states no status; this function never accepts None.
    """
    if status is None:
        raise IdentityRefusedError(
            "the vendor of the platform states no TCB status, but a status is required here",
            hint="identify the VM with the field SNP: SNP.MinimumTCB replaces the TCB status",
        )
    if status is TcbStatus.UP_TO_DATE:
        return
    if status is TcbStatus.REVOKED or status not in (accepted or _DEFAULT):
        raise IdentityRefusedError(
            f"the platform's TCB status is {status}, which is not accepted",
            hint="update the platform, or list the status in AcceptedTCBStatuses",
        )


def accept_advisories(
    status: TcbStatus | None, advisories: Collection[str], accepted: Collection[str]
) -> None:
    """Raise ``IdentityRefusedError`` for an advisory about software hardening that is not accepted.

    ``advisories``: the advisories of the platform. They count only with the status
    ``SWHardeningNeeded``. Each must be in ``accepted``, in any case of letters. An empty
    ``accepted`` means no restriction.
    """
    if status is not TcbStatus.SW_HARDENING_NEEDED or not accepted:
        return
    listed = {name.casefold() for name in accepted}
    missing = sorted(name for name in advisories if name.casefold() not in listed)
    if missing:
        raise IdentityRefusedError(
            f"the platform needs software hardening for {', '.join(missing)}, but"
            " AcceptedAdvisories does not list this",
            hint="verify that the enclave is hardened, then list these advisories in"
            " AcceptedAdvisories",
        )


class Rule(StrEnum):
    """The rules that an enclave can violate: fields of a package, and requirements on the quote.

    A confidential VM can also violate a field of its identity, such as ``TDX.MRTD``.
    """

    TCB_STATUS = "AcceptedTCBStatuses"
    ADVISORIES = "AcceptedAdvisories"
    REPORT_DATA = "ReportData"
    TEE = "Tee"
    DEBUG = "Debug"
    IDENTITY = "Identity"
    UNIQUE_ID = "UniqueID"
    SIGNER_ID = "SignerID"
    PRODUCT_ID = "ProductID"
    SECURITY_VERSION = "SecurityVersion"


class Mismatch(msgspec.Struct, frozen=True):
    """A violated rule: ``problem`` names the found value, and ``hint`` the next step."""

    rule: str  # a ``Rule``, or a field of a confidential VM
    problem: str
    hint: str = ""


class PackageRefusedError(IdentityRefusedError):
    """A true quote that the package does not admit; ``rule`` is the violated rule."""

    code = "package-refused"

    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__(f"{mismatch.rule}: {mismatch.problem}", hint=mismatch.hint)
        self.rule = mismatch.rule


def admit(verdict: Verdict, package: "Package", *, binding: bytes) -> None:
    """Raise ``PackageRefusedError`` for the first violated rule of ``package``.

    ``binding``: the 32 bytes that the quote must bind, from ``quote_binding``. The caller passes
    the ``package`` with the ``security_version`` in force, which a package update may have raised.
    """
    for mismatch in _all(verdict, package, binding):
        raise PackageRefusedError(mismatch)


def mismatches(verdict: Verdict, package: "Package") -> tuple[Mismatch, ...]:
    """Return every violated rule of ``package``, in order.

    The binding of the quote is not checked. So a quote without a violated rule is not admitted yet;
    only ``admit`` decides this.
    """
    return tuple(_all(verdict, package, None))


def _all(verdict: Verdict, package: "Package", binding: bytes | None) -> Iterator[Mismatch]:
    # Without a status of the vendor, the identity in the package states required versions.
    if verdict.tee.states_tcb or verdict.tee is not tee_of(package.vm):
        yield from _platform(verdict, package)
    if binding is not None:
        yield from _check(Rule.REPORT_DATA, lambda: require_binding(verdict.report_data, binding))
    if verdict.tee is not tee_of(package.vm):
        yield _wrong_kind(verdict.tee, tee_of(package.vm))
    elif package.vm is None:
        yield from _enclave(verdict, package)
    else:
        yield from _confidential_vm(verdict, package, package.vm)


def _platform(verdict: Verdict, package: "Package") -> Iterator[Mismatch]:
    status = verdict.tcb_status
    yield from _check(Rule.TCB_STATUS, lambda: accept_status(status, package.accepted_tcb_statuses))
    yield from _check(
        Rule.ADVISORIES,
        lambda: accept_advisories(status, verdict.advisories, package.accepted_advisories),
    )


def _check(rule: Rule, require: Callable[[], None]) -> Iterator[Mismatch]:
    try:
        require()
    except IdentityRefusedError as refused:
        yield Mismatch(rule, refused.message, refused.hint)


def _wrong_kind(actual: Tee, wanted: Tee) -> Mismatch:
    return Mismatch(
        Rule.TEE,
        f"the quote is of {actual.in_words}, the package is for {wanted.in_words}",
        f"run the workload in {wanted.in_words}, or give the marble type another package",
    )


def _confidential_vm(
    verdict: Verdict, package: "Package", wanted: VmIdentity
) -> Iterator[Mismatch]:
    kind = wanted.FIELD
    if verdict.debug:
        yield _debug(wanted=False)
    both = bool(package.debug or package.unique_id or package.signer_id)
    if both or package.product_id is not None or package.security_version is not None:
        # The check of manifests refuses such a package, and a package without a VM's identity.
        yield Mismatch(
            Rule.IDENTITY,
            f"the package names both an enclave and {kind}, must name only one",
            f"remove {kind}, or the fields of the enclave",
        )
    first = wanted.first_field()
    if not wanted.texts()[first] or verdict.measurements is None:
        hint = f"write {kind}.{first} into the package"
        yield Mismatch(Rule.IDENTITY, "the package does not name the confidential VM", hint)
        return
    for each in verdict.measurements.differences(wanted):
        yield _difference(f"{kind}.{each.field}", each.found, each.wanted, what="confidential VM")


def _enclave(verdict: Verdict, package: "Package") -> Iterator[Mismatch]:
    if verdict.debug is not package.debug:
        yield _debug(package.debug)
    if not (package.debug or _has_identity(package)):
        # The check of manifests refuses such a package. It must never mean any enclave.
        yield Mismatch(
            Rule.IDENTITY,
            "the package does not name the enclave",
            "write UniqueID, or SignerID, ProductID and SecurityVersion, into the package",
        )
    if package.unique_id and package.unique_id.lower() != verdict.mrenclave.hex():
        yield _difference(Rule.UNIQUE_ID, verdict.mrenclave.hex(), package.unique_id)
    if package.signer_id and package.signer_id.lower() != verdict.mrsigner.hex():
        yield _difference(Rule.SIGNER_ID, verdict.mrsigner.hex(), package.signer_id)
    if package.product_id is not None and verdict.isvprodid != package.product_id:
        yield _difference(Rule.PRODUCT_ID, str(verdict.isvprodid), str(package.product_id))
    if package.security_version is not None and verdict.isvsvn < package.security_version:
        yield Mismatch(
            Rule.SECURITY_VERSION,
            f"the enclave has {verdict.isvsvn}, must have {package.security_version} or higher",
            "start the newer build of the enclave",
        )


def _has_identity(package: "Package") -> bool:
    triple = package.signer_id and None not in {package.product_id, package.security_version}
    return bool(package.unique_id or triple)


def _debug(wanted: bool) -> Mismatch:  # noqa: FBT001 private; a caller passes a named field
    if wanted:
        return Mismatch(
            Rule.DEBUG,
            "the package is for debug enclaves; their quotes are always refused",
            "remove Debug from the package",
        )
    return Mismatch(
        Rule.DEBUG,
        "the workload is a debug enclave, whose memory the host can read: it is always refused",
        "sign the enclave without debug",
    )


def _difference(rule: str, actual: str, wanted: str, *, what: str = "enclave") -> Mismatch:
    return Mismatch(
        rule,
        f"the {what} has {actual}, must have {wanted}",
        f"if the {what} was rebuilt on purpose, update the manifest",
    )
