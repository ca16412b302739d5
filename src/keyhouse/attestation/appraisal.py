"""Whether a package of the manifest admits the enclave that a verified quote is of.

The rules are asked in the order of the manifest format, "Packages", and each has the name of the
field that states it: TCB status, advisories, what the quote binds, then which kind of environment
it is of, and who that is. A quote that does not verify never comes here, and neither does one of a
debug enclave, which the verifier refuses: no quote matches a package with ``Debug``.
"""

from collections.abc import Callable, Collection, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from keyhouse.attestation.errors import IdentityRefusedError
from keyhouse.attestation.quote.binding import require_binding
from keyhouse.attestation.quote.form import Tee
from keyhouse.attestation.quote.verdict import Verdict, tee_of
from keyhouse.wire.snp import SnpIdentity
from keyhouse.wire.tcb_status import TcbStatus
from keyhouse.wire.vm_identity import VmIdentity, kind_of_vm

if TYPE_CHECKING:
    from keyhouse.wire.package import Package

_DEFAULT = (TcbStatus.SW_HARDENING_NEEDED,)


def accept_tcb(
    status: TcbStatus | None,
    advisories: Collection[str],
    *,
    accepted_statuses: Collection[str] = (),
    accepted_advisories: Collection[str] = (),
) -> None:
    """Raise ``IdentityRefusedError`` unless the platform's state is accepted.

    Source: manifest format, "TCB status and advisories".
    """
    accept_status(status, accepted_statuses)
    accept_advisories(status, advisories, accepted_advisories)


def accept_status(status: TcbStatus | None, accepted: Collection[str]) -> None:
    """Raise ``IdentityRefusedError`` unless ``status`` is accepted.

    ``UpToDate`` always is; ``Revoked`` never, listed or not; any other only if listed, where an
    empty list means ``SWHardeningNeeded``. Names match exactly. ``None``, which no vendor has
    stated, is never accepted here.
    """
    if status is None:
        raise IdentityRefusedError(
            "the platform's vendor states no TCB status",
            hint="name it by SNP, whose MinimumTCB says what the platform has to have",
        )
    if status is TcbStatus.UP_TO_DATE:
        return
    if status is TcbStatus.REVOKED or status not in (accepted or _DEFAULT):
        raise IdentityRefusedError(
            f"the platform's TCB status is {status}, which is not accepted",
            hint="update the platform, or list the status in AcceptedTCBStatuses",
        )


def accept_advisories(
    status: TcbStatus | None, found: Collection[str], accepted: Collection[str]
) -> None:
    """Raise ``IdentityRefusedError`` if software hardening is needed for what is not ``accepted``.

    Advisories count for exactly ``SWHardeningNeeded``: each must be listed (in any case of
    letters) unless no list is given.
    """
    if status is not TcbStatus.SW_HARDENING_NEEDED or not accepted:
        return
    listed = {name.casefold() for name in accepted}
    others = sorted(name for name in found if name.casefold() not in listed)
    if others:
        raise IdentityRefusedError(
            f"the platform needs software hardening for {', '.join(others)}",
            hint="make sure that the enclave is hardened, then list them in AcceptedAdvisories",
        )


class Rule(StrEnum):
    """What an enclave can fail by: fields of a package, and what the quote itself has to be.

    A confidential VM also fails by a field of its identity, such as ``TDX.MRTD``.
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
    """A rule that the enclave fails: which one, what was found, and what can be done."""

    rule: str  # a ``Rule``, or a field of a confidential VM
    problem: str
    hint: str = ""


class PackageRefusedError(IdentityRefusedError):
    """A true quote, but the package does not admit it; ``rule`` says by what."""

    code = "package-refused"

    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__(f"{mismatch.rule}: {mismatch.problem}", hint=mismatch.hint)
        self.rule = mismatch.rule


def admit(verdict: Verdict, package: "Package", *, binding: bytes) -> None:
    """Raise ``PackageRefusedError`` for the first rule of ``package`` that fails.

    Its ``security_version`` is the one in force. ``binding``: the 32 bytes that the quote has to
    bind (``quote_binding``).
    """
    for mismatch in _all(verdict, package, binding):
        raise PackageRefusedError(mismatch)


def mismatches(verdict: Verdict, package: "Package") -> tuple[Mismatch, ...]:
    """Return every rule that fails, in order, but what the quote binds: nothing admits by this."""
    return tuple(_all(verdict, package, None))


def _all(verdict: Verdict, package: "Package", binding: bytes | None) -> Iterator[Mismatch]:
    # AMD states neither: a package with SNP has its MinimumTCB in their place.
    if not (verdict.tee is Tee.SNP and isinstance(package.vm, SnpIdentity)):
        yield from _platform(verdict, package)
    if binding is not None:
        yield from _asked(Rule.REPORT_DATA, lambda: require_binding(verdict.report_data, binding))
    if verdict.tee is not tee_of(package.vm):
        yield _other_kind(verdict.tee, tee_of(package.vm))
    elif package.vm is None:
        yield from _enclave(verdict, package)
    else:
        yield from _confidential_vm(verdict, package, package.vm)


def _platform(verdict: Verdict, package: "Package") -> Iterator[Mismatch]:
    status = verdict.tcb_status
    yield from _asked(Rule.TCB_STATUS, lambda: accept_status(status, package.accepted_tcb_statuses))
    yield from _asked(
        Rule.ADVISORIES,
        lambda: accept_advisories(status, verdict.advisories, package.accepted_advisories),
    )


def _asked(rule: Rule, require: Callable[[], None]) -> Iterator[Mismatch]:
    try:
        require()
    except IdentityRefusedError as refused:
        yield Mismatch(rule, refused.message, refused.hint)


def _other_kind(found: Tee, wanted: Tee) -> Mismatch:
    return Mismatch(
        Rule.TEE,
        f"the quote is of {found.in_words}, the package for {wanted.in_words}",
        f"run the workload in {wanted.in_words}, or give its type another package",
    )


def _confidential_vm(
    verdict: Verdict, package: "Package", wanted: VmIdentity
) -> Iterator[Mismatch]:
    kind = kind_of_vm(wanted)
    if verdict.debug:
        yield _debug(wanted=False)
    both = bool(package.debug or package.unique_id or package.signer_id)
    if both or package.product_id is not None or package.security_version is not None:
        # The check of manifests refuses such a package, and the next one.
        yield Mismatch(
            Rule.IDENTITY, f"the package names an enclave beside {kind}", "keep one of the two"
        )
    first = wanted.measurement if isinstance(wanted, SnpIdentity) else wanted.mrtd
    if not first or verdict.vm is None:
        hint = "give SNP.Measurement" if isinstance(wanted, SnpIdentity) else "give TDX.MRTD"
        yield Mismatch(Rule.IDENTITY, "the package names no confidential VM", hint)
        return
    for each in verdict.differences(wanted):
        yield _other(f"{kind}.{each.field}", each.found, each.wanted, what="confidential VM")


def _enclave(verdict: Verdict, package: "Package") -> Iterator[Mismatch]:
    if verdict.debug is not package.debug:
        yield _debug(package.debug)
    if not (package.debug or _names_someone(package)):
        # The check of manifests refuses such a package; here it must never mean "anybody".
        yield Mismatch(
            Rule.IDENTITY,
            "the package names no enclave",
            "give UniqueID, or SignerID, ProductID and SecurityVersion",
        )
    if package.unique_id and package.unique_id.lower() != verdict.mrenclave.hex():
        yield _other(Rule.UNIQUE_ID, verdict.mrenclave.hex(), package.unique_id)
    if package.signer_id and package.signer_id.lower() != verdict.mrsigner.hex():
        yield _other(Rule.SIGNER_ID, verdict.mrsigner.hex(), package.signer_id)
    if package.product_id is not None and verdict.isvprodid != package.product_id:
        yield _other(Rule.PRODUCT_ID, str(verdict.isvprodid), str(package.product_id))
    if package.security_version is not None and verdict.isvsvn < package.security_version:
        yield Mismatch(
            Rule.SECURITY_VERSION,
            f"the enclave's is {verdict.isvsvn}, must be {package.security_version} or higher",
            "start the newer build of the enclave",
        )


def _names_someone(package: "Package") -> bool:
    triple = package.signer_id and None not in {package.product_id, package.security_version}
    return bool(package.unique_id or triple)


def _debug(wanted: bool) -> Mismatch:  # noqa: FBT001  private, and named where it is called
    if wanted:
        return Mismatch(
            Rule.DEBUG,
            "the package is for debug enclaves, whose quotes are refused: it admits nobody",
            "remove Debug from the package",
        )
    return Mismatch(
        Rule.DEBUG, "it is a debug enclave, whose memory anybody can read", "sign it without debug"
    )


def _other(rule: str, found: str, wanted: str, *, what: str = "enclave") -> Mismatch:
    return Mismatch(
        rule,
        f"the {what}'s is {found}, must be {wanted}",
        f"if the {what} was rebuilt on purpose, update the manifest",
    )
