"""Verifies quotes: the same way for Intel's root and for a simulated one.

The cryptography is dcap-qvl's: signatures, certificate chains, revocation, the match of TCB
levels, the quoting enclave, no debug. Around it stand the checks that it leaves open:

0. the exact length of the quote (it ignores trailing bytes), when its form is read;
1. all certificate chains end in the pinned root (it ignores what stands there), and they and
   what they sign are authentic, so that forged bytes cannot make it abort the process;
2. TCB info and QE identity are of the known versions (it does not look) and carry the same
   evaluation number: else an old, laxer one of them can be used with the newer other; the TCB info
   is for the TEE of the quote;
3. dcap-qvl verifies;
4. pceId of the PCK certificate and of the TCB info are equal, on what has just been verified;
5. every part of the collateral, revocation lists too, is in its time.

Its messages are never shown: they are searched for known words, which choose one of our own.

Reports of SEV-SNP have another format, other roots and other collateral: ``snp.verify`` verifies
them, and nothing of one kind serves for the other.
"""

import functools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from keyhouse.attestation.collateral.amd import AmdCollateral
from keyhouse.attestation.collateral.authentic import (
    issued_pck_chain,
    require_signed,
    require_vendor_root,
)
from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.collateral.chain import require_same_authority, why_chain_refused
from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError, reason_for, refusal
from keyhouse.attestation.quote.form import QuoteForm, Tee, read_form
from keyhouse.attestation.quote.report import read_report
from keyhouse.attestation.quote.td import require_sound
from keyhouse.attestation.quote.verdict import Freshness, Verdict
from keyhouse.attestation.snp.authority import Roots
from keyhouse.attestation.snp.verify import verify_snp
from keyhouse.wire.tcb_status import TcbStatus

if TYPE_CHECKING:
    import dcap_qvl  # type: ignore[import-untyped]  # its stubs lack py.typed

_Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]
Octets = tuple[_Byte, ...]


# The platform is up to date, but the confidential VM was started before it was: it is old itself.
_RELAUNCH: Final = {
    "TDRelaunchAdvised": TcbStatus.OUT_OF_DATE,
    "TDRelaunchAdvisedConfigurationNeeded": TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
}


class TcbClaims(msgspec.Struct, kw_only=True):
    """The merged state of platform, quoting enclave and (TDX) module."""

    said: str = msgspec.field(name="status")
    advisory_ids: tuple[str, ...]
    eval_data_number: int

    def __post_init__(self) -> None:
        _ = self.status  # an unknown one is an error here, where claims are read

    @property
    def status(self) -> TcbStatus:
        """What ``said`` means in the words of manifests."""
        return _RELAUNCH.get(self.said) or TcbStatus(self.said)


class PckClaims(msgspec.Struct):
    """The SGX extension of the verified PCK certificate."""

    ppid: Octets
    pce_id: Octets
    fmspc: Octets


class TcbLevel(msgspec.Struct):
    """The level of the TCB info that matched."""

    tcb_date: datetime = msgspec.field(name="tcbDate")


class PlatformClaims(msgspec.Struct):
    """The platform, without its quoting enclave."""

    tcb_level: TcbLevel
    pck: PckClaims
    pck_crl_num: int
    root_ca_crl_num: int


class Claims(msgspec.Struct):
    """The parts of ``dcap_qvl.QuoteClaims`` that are used. Dates are Unix seconds."""

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
    """Return the claims in the library's JSON. A new status or shape is an error, never a guess."""
    return _decoder.decode(text)


class _TcbInfo(msgspec.Struct, frozen=True):
    id: Literal["SGX", "TDX"]
    version: Literal[3]
    tcb_type: Literal[0] = msgspec.field(name="tcbType")  # how levels are compared
    pce_id: str = msgspec.field(name="pceId")
    evaluation_number: int = msgspec.field(name="tcbEvaluationDataNumber")


class _QeIdentity(msgspec.Struct, frozen=True):
    version: Literal[2]
    evaluation_number: int = msgspec.field(name="tcbEvaluationDataNumber")


_tcb_info_decoder = msgspec.json.Decoder(_TcbInfo)
_qe_identity_decoder = msgspec.json.Decoder(_QeIdentity)


class Verifier:
    """Verifies quotes under pinned root certificates, DER. May be shared among threads.

    ``root_ca``: that of quotes of SGX and TDX; ``amd_roots``: those of SEV-SNP by line of
    processors, without which its reports are refused. Raises ``ConfigurationRefusedError`` if
    ``root_ca`` is not a root certificate.
    """

    def __init__(self, root_ca: bytes, amd_roots: Roots | None = None) -> None:
        require_vendor_root(root_ca)
        self._root_ca = root_ca
        self._amd_roots = amd_roots or {}

    @property
    def root_ca(self) -> bytes:
        """The pinned root of SGX and TDX, DER."""
        return self._root_ca

    def load(self) -> None:
        """Load the library now; otherwise the first quote waits for it."""
        _ = self._verifier

    def verify(self, quote: bytes, collateral: Collateral | AmdCollateral, at: datetime) -> Verdict:
        """Return what ``quote`` (raw, or with the 16-byte header) says, if it verifies at ``at``.

        Raises ``QuoteRefusedError`` with its reason, and nothing else, whatever the bytes are.
        ``at`` is a time with a zone. TCB status and identity still have to be appraised.
        """
        if at.tzinfo is None:
            raise ValueError("the time of verification needs a zone")
        form = read_form(quote)
        if form.tee is Tee.SNP and isinstance(collateral, AmdCollateral):
            return verify_snp(form, collateral, self._amd_roots, at)
        if form.tee is Tee.SNP or isinstance(collateral, AmdCollateral):
            raise refusal(QuoteProblem.WRONG_PLATFORM)
        return self._verify_dcap(form, collateral, at)

    def _verify_dcap(self, form: QuoteForm, collateral: Collateral, at: datetime) -> Verdict:
        pck = issued_pck_chain(form.chain, self._root_ca)  # 1
        require_same_authority(pck, collateral, self._root_ca)
        require_signed(collateral)
        tcb_info = _matching_tcb_info(collateral)  # 2
        _require_tee(form, tcb_info)
        claims = self._claims(form, collateral, at)  # 3
        if bytes(claims.platform.pck.pce_id).hex() != tcb_info.pce_id.lower():  # 4
            raise QuoteRefusedError(
                QuoteProblem.WRONG_PLATFORM,
                "the collateral is for another platform: its pceId differs from the quote's",
                hint="use the collateral of the platform that made the quote",
            )
        _require_in_time(claims, int(at.timestamp()))  # 5
        return _verdict(form, claims)

    @functools.cached_property
    def _verifier(self) -> "dcap_qvl.QuoteVerifier":
        import dcap_qvl  # with the first quote: with what it imports it would delay a start

        return dcap_qvl.QuoteVerifier(self._root_ca)

    def _claims(self, form: QuoteForm, collateral: Collateral, at: datetime) -> Claims:
        import dcap_qvl

        seconds = int(at.timestamp())
        try:
            policy = dcap_qvl.QuotePolicy.claims_only(seconds)
            given = _for_library(collateral)
            found = self._verifier.verify_with_policy(form.raw, given, seconds, policy)
            return read_claims(found.to_json())
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        # A panic arrives as PanicException, which is no Exception, unless the library was built to
        # abort (0.7.0's wheels are: see authentic.py).
        except BaseException as exc:  # noqa: BLE001
            reason = reason_for(str(exc))
        if reason is QuoteProblem.CHAIN:
            reason = why_chain_refused(form.chain, collateral, at)
        raise refusal(reason)


# What belongs to the collateral alone is done once for each: a coordinator verifies many quotes
# with the same one.
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


def require_dcap(quote: bytes) -> None:
    """Raise ``QuoteRefusedError`` if ``quote``, of a coordinator, is a report of SEV-SNP.

    Those of workloads are verified by coordinators, which have AMD's collateral in their settings.
    """
    if read_form(quote).tee is Tee.SNP:
        raise QuoteRefusedError(
            QuoteProblem.WRONG_PLATFORM,
            "the coordinator attests with a report of SEV-SNP, which only other coordinators"
            " verify so far",
            hint="run the coordinator that others verify in SGX or TDX",
        )


@functools.lru_cache(maxsize=64)
def _matching_tcb_info(collateral: Collateral) -> _TcbInfo:
    try:
        tcb_info = _tcb_info_decoder.decode(collateral.tcb_info)
        qe_identity = _qe_identity_decoder.decode(collateral.qe_identity)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise QuoteRefusedError(
            QuoteProblem.COLLATERAL,
            "the collateral's TCB info or QE identity is unreadable or of another version",
            hint="fetch the collateral again, TCB info of version 3 and QE identity of version 2",
        ) from None
    if tcb_info.evaluation_number != qe_identity.evaluation_number:
        raise QuoteRefusedError(
            QuoteProblem.COLLATERAL,
            "TCB info and QE identity of the collateral have different evaluation numbers",
            hint="fetch both at the same time",
        )
    return tcb_info


def _require_tee(form: QuoteForm, tcb_info: _TcbInfo) -> None:
    if tcb_info.id != form.tee.upper():
        raise QuoteRefusedError(
            QuoteProblem.WRONG_PLATFORM,
            f"the collateral is for {tcb_info.id} quotes, and this is one of {form.tee.upper()}",
            hint="SGX and TDX each need their own collateral: fetch that of this quote, too",
        )


def _require_in_time(claims: Claims, at: int) -> None:
    if at > claims.expires:
        raise refusal(QuoteProblem.EXPIRED)
    if at < claims.issued:
        raise refusal(QuoteProblem.NOT_YET_VALID)


def _verdict(form: QuoteForm, claims: Claims) -> Verdict:
    report = read_report(form)
    if report.debug:  # the library has refused it already; this keeps it so
        raise refusal(QuoteProblem.DEBUG)
    if report.td is not None:
        require_sound(report.td)  # likewise, where the library knows the reason
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
