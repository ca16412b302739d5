"""Verifies quotes of SGX and TDX, in the same way for Intel's root and for a simulated root.

dcap-qvl does the cryptography: signatures, certificate chains, revocation, TCB levels, the quoting
enclave, no debug. This module adds the checks that dcap-qvl leaves open:

0. Check the exact length of the quote, because dcap-qvl ignores trailing bytes (``read_form``).
1. Check that all certificate chains end in the pinned root, because dcap-qvl ignores their last
   certificates. Verify the chains and the signed parts, so that forged bytes cannot abort the
   process (``collateral.signatures``).
2. Check that TCB info and QE identity have the known versions, which dcap-qvl does not check. Their
   evaluation numbers must be equal; otherwise an attacker could combine an old, more permissive
   part with a newer part. The TCB info must be for the TEE of the quote.
3. Verify with dcap-qvl.
4. Compare the pceId of the verified PCK certificate with the TCB info.
5. Check that every part of the collateral is in its time, including revocation lists.

Messages of dcap-qvl are never shown. A search for known words selects our own text.
"""

import functools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.collateral.signatures import (
    issued_pck_chain,
    require_same_authority,
    require_signed,
    why_chain_refused,
)
from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError, reason_for, refusal
from keyhouse.attestation.kinds.dcap.form import read_dcap_report
from keyhouse.attestation.quote.report import Freshness, QuoteForm, Verdict
from keyhouse.wire.tcb_status import TcbStatus

if TYPE_CHECKING:
    import dcap_qvl  # type: ignore[import-untyped]  # its stubs lack py.typed

_Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]
Octets = tuple[_Byte, ...]


# The platform is up to date, but the confidential VM was started before its update.
_RELAUNCH: Final = {
    "TDRelaunchAdvised": TcbStatus.OUT_OF_DATE,
    "TDRelaunchAdvisedConfigurationNeeded": TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
}


class TcbClaims(msgspec.Struct, kw_only=True):
    """The merged TCB state of the platform, its quoting enclave and, for TDX, its module."""

    stated: str = msgspec.field(name="status")
    advisory_ids: tuple[str, ...]
    eval_data_number: int

    def __post_init__(self) -> None:
        _ = self.status  # an unknown status is an error as early as here

    @property
    def status(self) -> TcbStatus:
        """The TCB status in the words of manifests; ``stated`` has the word of dcap-qvl."""
        return _RELAUNCH.get(self.stated) or TcbStatus(self.stated)


class PckClaims(msgspec.Struct):
    """The SGX extension of the verified PCK certificate."""

    ppid: Octets
    pce_id: Octets
    fmspc: Octets


class TcbLevel(msgspec.Struct):
    """The level of the collateral's TCB info that a platform reaches."""

    tcb_date: datetime = msgspec.field(name="tcbDate")


class PlatformClaims(msgspec.Struct):
    """The facts about the platform of a quote, without those about its quoting enclave."""

    tcb_level: TcbLevel
    pck: PckClaims
    pck_crl_num: int
    root_ca_crl_num: int


class Claims(msgspec.Struct):
    """The used parts of ``dcap_qvl.QuoteClaims``. Dates are Unix seconds."""

    tcb: TcbClaims
    platform: PlatformClaims
    latest_issue_date: int
    earliest_expiration_date: int
    qe_iden_latest_issue_date: int
    qe_iden_earliest_expiration_date: int

    @property
    def issued(self) -> int:
        """The newest issue date among all parts of the collateral."""
        return max(self.latest_issue_date, self.qe_iden_latest_issue_date)

    @property
    def expires(self) -> int:
        """The earliest end among all parts of the collateral."""
        return min(self.earliest_expiration_date, self.qe_iden_earliest_expiration_date)


_decoder = msgspec.json.Decoder(Claims)


def read_claims(text: str) -> Claims:
    """Return the claims in ``text``, the JSON of a verified quote from dcap-qvl.

    Raises msgspec's errors for an unknown status or another shape.
    """
    return _decoder.decode(text)


class _TcbInfo(msgspec.Struct, frozen=True):
    id: Literal["SGX", "TDX"]
    version: Literal[3]
    tcb_type: Literal[0] = msgspec.field(name="tcbType")  # the rule for comparing levels
    pce_id: str = msgspec.field(name="pceId")
    evaluation_number: int = msgspec.field(name="tcbEvaluationDataNumber")


class _QeIdentity(msgspec.Struct, frozen=True):
    version: Literal[2]
    evaluation_number: int = msgspec.field(name="tcbEvaluationDataNumber")


_tcb_info_decoder = msgspec.json.Decoder(_TcbInfo)
_qe_identity_decoder = msgspec.json.Decoder(_QeIdentity)


def verify_dcap(form: QuoteForm, collateral: Collateral, root_ca: bytes, at: datetime) -> Verdict:
    """Return the verdict of a quote that verifies at ``at`` under ``root_ca``, DER.

    Raises ``QuoteRefusedError``.
    """
    pck = issued_pck_chain(form.chain, root_ca)  # 1
    require_same_authority(pck, collateral, root_ca)
    require_signed(collateral)
    tcb_info = _matching_tcb_info(collateral)  # 2
    _require_tee(form, tcb_info)
    claims = _claims(form, collateral, root_ca, at)  # 3
    if bytes(claims.platform.pck.pce_id).hex() != tcb_info.pce_id.lower():  # 4
        raise QuoteRefusedError(
            QuoteProblem.WRONG_PLATFORM,
            "the collateral is for another platform: its pceId differs from the quote's",
            hint="use the collateral of the platform that made the quote",
        )
    _require_in_time(claims, int(at.timestamp()))  # 5
    return _verdict(form, claims)


@functools.lru_cache(maxsize=16)
def library(root_ca: bytes) -> "dcap_qvl.QuoteVerifier":
    """Return dcap-qvl's verifier under ``root_ca``, DER. The first call loads dcap-qvl."""
    import dcap_qvl  # imported at the first quote, because the import would delay a start

    return dcap_qvl.QuoteVerifier(root_ca)


def _claims(form: QuoteForm, collateral: Collateral, root_ca: bytes, at: datetime) -> Claims:
    import dcap_qvl

    seconds = int(at.timestamp())
    try:
        policy = dcap_qvl.QuotePolicy.claims_only(seconds)
        given = _for_library(collateral)
        found = library(root_ca).verify_with_policy(form.raw, given, seconds, policy)
        return read_claims(found.to_json())
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    # A panic arrives as PanicException, which is not an Exception. A library built to abort
    # raises nothing; the wheels of 0.7.0 are built so (see signatures.py).
    except BaseException as exc:  # noqa: BLE001
        reason = reason_for(str(exc))
    if reason is QuoteProblem.CHAIN:
        reason = why_chain_refused(form.chain, collateral, at)
    raise refusal(reason)


# Results that depend on the collateral alone are cached, because a coordinator verifies many quotes
# with the same collateral.
@functools.lru_cache(maxsize=64)
def _for_library(collateral: Collateral) -> "dcap_qvl.QuoteCollateralV3":
    import dcap_qvl

    return dcap_qvl.QuoteCollateralV3(
        collateral.pck_crl_issuer_chain,
        collateral.root_ca_crl,
        collateral.pck_crl,
        collateral.tcb_info_issuer_chain,
        collateral.tcb_info,
        collateral.tcb_info_signature,
        collateral.qe_identity_issuer_chain,
        collateral.qe_identity,
        collateral.qe_identity_signature,
    )


@functools.lru_cache(maxsize=64)
def _matching_tcb_info(collateral: Collateral) -> _TcbInfo:
    try:
        tcb_info = _tcb_info_decoder.decode(collateral.tcb_info)
        qe_identity = _qe_identity_decoder.decode(collateral.qe_identity)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise QuoteRefusedError(
            QuoteProblem.COLLATERAL,
            "the collateral's TCB info or QE identity is unreadable or has an unknown version",
            hint="fetch the collateral again, TCB info of version 3 and QE identity of version 2",
        ) from None
    if tcb_info.evaluation_number != qe_identity.evaluation_number:
        raise QuoteRefusedError(
            QuoteProblem.COLLATERAL,
            "TCB info and QE identity of the collateral have different evaluation numbers",
            hint="fetch all parts of the collateral again, at the same time",
        )
    return tcb_info


def _require_tee(form: QuoteForm, tcb_info: _TcbInfo) -> None:
    if tcb_info.id != form.tee.upper():
        raise QuoteRefusedError(
            QuoteProblem.WRONG_PLATFORM,
            f"the collateral is for {tcb_info.id} quotes, but the quote is of {form.tee.upper()}",
            hint="fetch the collateral for this quote: SGX and TDX have different collateral",
        )


def _require_in_time(claims: Claims, at: int) -> None:
    if at > claims.expires:
        raise refusal(QuoteProblem.EXPIRED)
    if at < claims.issued:
        raise refusal(QuoteProblem.NOT_YET_VALID)


def _verdict(form: QuoteForm, claims: Claims) -> Verdict:
    report = read_dcap_report(form)
    if report.debug:  # a second check: the library refuses debug quotes as well
        raise refusal(QuoteProblem.DEBUG)
    if report.measurements is not None:
        report.measurements.require_sound()  # a second check, for reasons that the library knows
    return Verdict(
        **msgspec.structs.asdict(report),
        tee=form.tee,
        tcb_status=claims.tcb.status,
        advisories=claims.tcb.advisory_ids,
        tcb_date=claims.platform.tcb_level.tcb_date,
        fmspc=bytes(claims.platform.pck.fmspc),
        ppid=bytes(claims.platform.pck.ppid),
        freshness=_freshness(claims),
    )


def _freshness(claims: Claims) -> Freshness:
    return Freshness(
        tcb_evaluation_number=claims.tcb.eval_data_number,
        pck_crl_number=claims.platform.pck_crl_num,
        root_crl_number=claims.platform.root_ca_crl_num,
        issued=datetime.fromtimestamp(claims.issued, UTC),
        expires=datetime.fromtimestamp(claims.expires, UTC),
    )
