"""The statements of a bundle of collateral: its platforms, its times, and the ages of its parts.

``read_facts`` returns the statements without a check. ``require_sound`` makes all checks that need
no quote: signatures up to the pinned root, parts that belong together, no revoked signer, the time.

A *mark* is the age of a part, so that older parts are refused later. Otherwise a host could rewind
the clock and present old collateral, in which a vulnerable platform still counts as up to date.
These parts have a mark: TCB info (for each kind of platform), QE identity (for each TEE), and the
revocation lists of the root, of each PCK CA and of each AMD root. TCB info and QE identity are
documents; a document is older if its evaluation number is lower. Documents with equal numbers have
equal content, even if a service signs them again. A list is older if its number is lower or its
date is earlier, because Intel's lists keep the same number for years.
"""

import functools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec
from cryptography import x509

from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.collateral.signatures import (
    read_chain,
    require_collateral_roots,
    require_signed,
)
from keyhouse.attestation.errors import (
    CollateralRefusedError,
    CollateralUnavailableError,
    CollateralUnusableError,
    QuoteProblem,
    QuoteRefusedError,
)
from keyhouse.attestation.quote.report import Freshness, Tee

_KINDS = {("SGX", "QE"): Tee.SGX, ("TDX", "TD_QE"): Tee.TDX}
_CLOCK = "check this machine's clock; if the clock is right, fetch the collateral again"
_FETCH = "fetch the collateral again, for the platform that made the quote"


class PckCa(StrEnum):
    """Intel's CA that issued the PCK certificate.

    A PCK certificate belongs to a platform, and certifies the key behind the platform's quotes.
    """

    PLATFORM = "platform"
    PROCESSOR = "processor"


class PlatformKind(msgspec.Struct, frozen=True, order=True):
    """A kind of platform: all platforms that use the same collateral.

    ``fmspc``: Intel's number of the platform's model and type, 12 lower-case hex digits.
    """

    tee: Tee
    fmspc: str
    ca: PckCa

    def __str__(self) -> str:
        return f"{self.tee}-{self.fmspc}-{self.ca}"


def authority_kind(certificate: x509.Certificate) -> PckCa:
    """Return which PCK CA has the CA certificate ``certificate``.

    Raises ``ValueError`` for any other certificate.
    """
    (name,) = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    for kind in PckCa:
        if str(name.value).endswith(f" PCK {kind.title()} CA"):
            return kind
    raise ValueError("the PCK certificate has no known PCK CA as issuer")


class CollateralFacts(msgspec.Struct, frozen=True):
    """The kind of platform, the times and the numbers that a bundle of collateral states.

    Certificates, documents and lists are parts of a bundle. ``issued`` is the latest begin of
    validity among all parts, and ``expires`` the earliest end. ``ends_first`` names the part with
    this end. Times are UTC.
    """

    kind: PlatformKind
    issued: datetime
    expires: datetime
    ends_first: str
    evaluation_number: int
    root_crl_number: int
    pck_crl_number: int
    root_ca: bytes  # DER, the end of all chains
    tcb_info_issued: datetime
    qe_identity_issued: datetime
    root_crl_issued: datetime
    pck_crl_issued: datetime

    def older_than(self, other: "CollateralFacts") -> bool:
        """Return whether any part of this collateral is older than the same part of ``other``."""
        return (
            self.evaluation_number < other.evaluation_number
            or self.root_crl_number < other.root_crl_number
            or self.pck_crl_number < other.pck_crl_number
            or self.issued < other.issued
            or self.tcb_info_issued < other.tcb_info_issued
            or self.qe_identity_issued < other.qe_identity_issued
            or self.root_crl_issued < other.root_crl_issued
            or self.pck_crl_issued < other.pck_crl_issued
        )


class _Document(msgspec.Struct):
    id: str
    issued: datetime = msgspec.field(name="issueDate")
    next_update: datetime = msgspec.field(name="nextUpdate")
    evaluation_number: int = msgspec.field(name="tcbEvaluationDataNumber")


class _TcbInfoPlatform(_Document):
    fmspc: str


_tcb_info_decoder = msgspec.json.Decoder(_TcbInfoPlatform)
_qe_identity_decoder = msgspec.json.Decoder(_Document)


class _Part(msgspec.Struct, frozen=True):
    name: str
    issued: datetime
    expires: datetime


def read_facts(collateral: Collateral) -> CollateralFacts:
    """Return the statements of ``collateral``, without any verification.

    Raises ``CollateralUnusableError`` for unreadable collateral, and for parts of different
    platforms.
    """
    try:
        return _facts(collateral)
    except CollateralRefusedError:
        raise
    # The exceptions of a parser for hostile bytes vary and may contain the bytes.
    except Exception:  # noqa: BLE001
        raise CollateralUnusableError(
            QuoteProblem.COLLATERAL, "the collateral has an unreadable part", hint=_FETCH
        ) from None


def require_sound(collateral: Collateral, root_ca: bytes, at: datetime) -> CollateralFacts:
    """Return the facts of ``collateral``, verified at the time ``at`` under ``root_ca`` (DER).

    Raises ``CollateralUnusableError`` for a chain that does not end in ``root_ca``, a wrong
    signature, parts that do not belong together, a revoked signer, and for collateral that is
    expired or not yet valid.
    """
    try:
        require_collateral_roots(collateral, root_ca)
        require_signed(collateral)
    except QuoteRefusedError as refused:
        raise CollateralUnusableError(refused.reason, _BAD[refused.reason], hint=_FETCH) from None
    facts = read_facts(collateral)
    _require_unrevoked(collateral)
    if at > facts.expires:
        raise CollateralUnusableError(
            QuoteProblem.EXPIRED,
            f"the collateral expired at {shown_time(facts.expires)} ({facts.ends_first})",
            hint=_CLOCK,
        )
    if at < facts.issued:
        raise CollateralUnusableError(
            QuoteProblem.NOT_YET_VALID,
            f"the collateral is not valid before {shown_time(facts.issued)}",
            hint=_CLOCK,
        )
    return facts


def require_kind(facts: CollateralFacts, kind: PlatformKind) -> None:
    """Raise ``CollateralUnusableError`` unless ``facts`` are for the platforms of ``kind``."""
    if facts.kind != kind:
        raise CollateralUnusableError(
            QuoteProblem.WRONG_PLATFORM,
            f"the collateral is for {_named(facts.kind)}, the quote needs {_named(kind)}",
            hint="fetch the collateral for the platform that made the quote",
        )


def shown_time(moment: datetime) -> str:
    """Return ``moment`` as text: UTC, RFC 3339, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_BAD = {
    QuoteProblem.CHAIN: "the collateral's certificates do not lead to the pinned root",
    QuoteProblem.SIGNATURE: "a signature of the collateral is wrong",
}


def _named(kind: PlatformKind) -> str:
    return f"{kind.tee.upper()} FMSPC {kind.fmspc} ({kind.ca} CA)"


@functools.lru_cache(maxsize=64)
def _facts(collateral: Collateral) -> CollateralFacts:
    tcb_info = _tcb_info_decoder.decode(collateral.tcb_info)
    qe_identity = _qe_identity_decoder.decode(collateral.qe_identity)
    if tcb_info.evaluation_number != qe_identity.evaluation_number:
        raise _mismatched_parts("TCB info and QE identity have different evaluation numbers")
    tee = _KINDS.get((tcb_info.id, qe_identity.id))
    if tee is None:
        raise _mismatched_parts("TCB info and QE identity are not for the same kind of platform")
    root_list = x509.load_der_x509_crl(collateral.root_ca_crl)
    pck_list = x509.load_der_x509_crl(collateral.pck_crl)
    pck_ca, root = _chain(collateral.pck_crl_issuer_chain)
    issuer = authority_kind(x509.load_der_x509_certificate(pck_ca))
    parts = [
        _Part("TCB info", tcb_info.issued, tcb_info.next_update),
        _Part("QE identity", qe_identity.issued, qe_identity.next_update),
        _list_part("root revocation list", root_list),
        _list_part("PCK revocation list", pck_list),
        *_certificate_parts(collateral),
    ]
    first = min(parts, key=lambda part: part.expires)
    return CollateralFacts(
        kind=PlatformKind(tee, bytes.fromhex(tcb_info.fmspc).hex(), issuer),
        issued=max(part.issued for part in parts).astimezone(UTC),
        expires=first.expires.astimezone(UTC),
        ends_first=first.name,
        evaluation_number=tcb_info.evaluation_number,
        root_crl_number=_number(root_list),
        pck_crl_number=_number(pck_list),
        root_ca=root,
        tcb_info_issued=tcb_info.issued.astimezone(UTC),
        qe_identity_issued=qe_identity.issued.astimezone(UTC),
        root_crl_issued=root_list.last_update_utc,
        pck_crl_issued=pck_list.last_update_utc,
    )


def _mismatched_parts(problem: str) -> CollateralUnusableError:
    return CollateralUnusableError(
        QuoteProblem.COLLATERAL,
        f"the collateral's parts do not belong together: {problem}",
        hint="fetch all parts of the collateral again, at the same time",
    )


def _certificate_parts(collateral: Collateral) -> list[_Part]:
    chains = {
        "PCK CA certificate": collateral.pck_crl_issuer_chain,
        "TCB signing certificate": collateral.tcb_info_issuer_chain,
        "QE identity signing certificate": collateral.qe_identity_issuer_chain,
    }
    return [
        _Part(name, certificate.not_valid_before_utc, certificate.not_valid_after_utc)
        for name, pem in chains.items()
        for certificate in map(x509.load_der_x509_certificate, _chain(pem))
    ]


def _chain(pem: str) -> tuple[bytes, bytes]:
    signer, root = read_chain(pem, "a chain of the collateral")
    return signer, root


def _list_part(name: str, revoked: x509.CertificateRevocationList) -> _Part:
    if revoked.next_update_utc is None:
        raise ValueError("the revocation list states no next update")
    return _Part(name, revoked.last_update_utc, revoked.next_update_utc)


def _number(revoked: x509.CertificateRevocationList) -> int:
    return revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def _require_unrevoked(collateral: Collateral) -> None:
    revoked = x509.load_der_x509_crl(collateral.root_ca_crl)
    chains = (
        collateral.pck_crl_issuer_chain,
        collateral.tcb_info_issuer_chain,
        collateral.qe_identity_issuer_chain,
    )
    for pem in chains:
        signer = x509.load_der_x509_certificate(_chain(pem)[0])
        if revoked.get_revoked_certificate_by_serial_number(signer.serial_number) is not None:
            raise CollateralUnusableError(
                QuoteProblem.REVOKED,
                "a certificate that signs the collateral has been revoked by the root",
                hint="fetch the collateral again; if the error remains, ask the platform's vendor",
            )


OF_PLATFORM: Final = "tcb-info/"
"""The prefix of mark names with an entry for each kind of platform."""

_LISTS: Final = ("root-crl", "pck-crl/", "amd-crl/")
_LARGEST: Final = 2**63 - 1  # numbers in journals are signed 64-bit integers
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Mark(msgspec.Struct, frozen=True):
    """The age of a part of collateral. Stored in journals: add fields, never rename."""

    number: int  # evaluation number, or number of the list; at most 2**63 - 1
    issued: int  # microseconds since 1970, UTC


def marks_of(facts: CollateralFacts) -> dict[str, Mark]:
    """Return the marks of collateral by part: ``tcb-info/sgx/00a067110000``, ``root-crl``..."""
    kind = facts.kind
    return {
        f"{OF_PLATFORM}{kind.tee}/{kind.fmspc}": _mark(
            facts.evaluation_number, facts.tcb_info_issued
        ),
        f"qe-identity/{kind.tee}": _mark(facts.evaluation_number, facts.qe_identity_issued),
        "root-crl": _mark(facts.root_crl_number, facts.root_crl_issued),
        f"pck-crl/{kind.ca}": _mark(facts.pck_crl_number, facts.pck_crl_issued),
    }


def marks_of_bundle(collateral: Collateral) -> dict[str, Mark]:
    """Return the marks of ``collateral``, a bundle that has served to verify a quote.

    Raises ``CollateralUnavailableError`` for an unreadable bundle, because the quote is not at
    fault.
    """
    try:
        return marks_of(read_facts(collateral))
    except CollateralRefusedError as refused:
        raise CollateralUnavailableError(refused.message, hint=refused.hint) from None


def marks_of_amd_list(product: str, freshness: Freshness) -> dict[str, Mark]:
    """Return the mark of AMD's revocation list for the line of processors ``product``.

    ``freshness``: from the verdict of a report.
    """
    return {f"amd-crl/{product}": _mark(freshness.root_crl_number, freshness.issued)}


def require_as_new(marks: Mapping[str, Mark], known: Mapping[str, Mark]) -> None:
    """Raise ``CollateralUnavailableError`` if a part of ``marks`` is older than in ``known``.

    ``marks`` and ``known`` map the names of parts to marks, as ``marks_of`` does.
    """
    for name, mark in marks.items():
        before = known.get(name)
        if before is not None and _is_newer(name, before, mark):
            raise CollateralUnavailableError(
                f"the collateral is older than earlier collateral: {name} has {_mark_text(mark)},"
                f" expected {_mark_text(before)} or newer",
                hint="let the PCCS refresh its own cache, or fetch the bundle again",
            )


def is_as_new(marks: Mapping[str, Mark], known: Mapping[str, Mark]) -> bool:
    """Return whether no part of ``marks`` is older than in ``known``.

    ``marks`` and ``known``: as in ``require_as_new``.
    """
    return not any(name in known and _is_newer(name, known[name], marks[name]) for name in marks)


def newer_marks(marks: Mapping[str, Mark], known: Mapping[str, Mark]) -> dict[str, Mark]:
    """Return new marks for the parts of ``marks`` that are newer than in ``known``.

    A new mark has the larger number and the later date of the two marks of the part. A part without
    a mark in ``known`` also counts as newer.
    """
    newer: dict[str, Mark] = {}
    for name, mark in marks.items():
        before = known.get(name)
        if before is None:
            newer[name] = mark
        elif _is_newer(name, mark, before):
            newer[name] = Mark(max(mark.number, before.number), max(mark.issued, before.issued))
    return newer


def _is_newer(name: str, mark: Mark, other: Mark) -> bool:
    later = name.startswith(_LISTS) and mark.issued > other.issued
    return mark.number > other.number or later


def _mark(number: int, issued: datetime) -> Mark:
    microseconds = (issued - _EPOCH) // timedelta(microseconds=1)
    return Mark(min(number, _LARGEST), microseconds)


def _mark_text(mark: Mark) -> str:
    issued = datetime.fromtimestamp(mark.issued // 1_000_000, UTC)
    return f"number {mark.number} of {issued:%Y-%m-%dT%H:%M:%SZ}"
