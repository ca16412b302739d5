"""Quotes and who may be trusted: the verifier, collateral, and the platform protocol."""

from keyhouse.attestation.collateral.amd import AmdCollateral, read_amd_collateral
from keyhouse.attestation.collateral.bundle import Collateral, read_collateral, write_collateral
from keyhouse.attestation.collateral.facts import CollateralFacts, read_facts, require_sound
from keyhouse.attestation.collateral.marks import (
    Mark,
    marks_of,
    marks_of_amd,
    newer_marks,
    require_as_new,
)
from keyhouse.attestation.collateral.platform_kind import PckCa, PlatformKind, platform_kind
from keyhouse.attestation.errors import (
    CollateralRefusedError,
    CollateralUnavailableError,
    CollateralUnusableError,
    ConfigurationRefusedError,
    IdentityRefusedError,
    QuoteProblem,
    QuoteRefusedError,
)
from keyhouse.attestation.identity import (
    ExpectedIdentity,
    appraise,
    read_expected_identity,
    write_expected_identity,
)
from keyhouse.attestation.platforms.files import (
    NoSealingKeyError,
    PlatformUnusableError,
    QuoteNotMadeError,
)
from keyhouse.attestation.platforms.find import PLATFORMS, PlatformMissingError, open_platform
from keyhouse.attestation.platforms.platform import Measurements, Platform, SealPolicy
from keyhouse.attestation.quote.binding import (
    head_report_data,
    quote_binding,
    report_data,
    require_binding,
    require_report_data,
    start_report_data,
)
from keyhouse.attestation.quote.form import QuoteForm, Tee, add_header, read_form
from keyhouse.attestation.quote.snp import SnpMeasurements
from keyhouse.attestation.quote.td import TdMeasurements
from keyhouse.attestation.quote.verdict import Freshness, Verdict
from keyhouse.attestation.tcb import accept_tcb
from keyhouse.attestation.vendor_roots import (
    AMD_ROOTS,
    AMD_ROOTS_SHA256,
    INTEL_SGX_ROOT,
    INTEL_SGX_ROOT_SHA256,
)
from keyhouse.attestation.verifier import Verifier, require_dcap
from keyhouse.wire.snp import SnpIdentity, SnpTcb
from keyhouse.wire.tcb_status import TcbStatus
from keyhouse.wire.tdx import TdxIdentity

__all__ = [
    "AMD_ROOTS",
    "AMD_ROOTS_SHA256",
    "INTEL_SGX_ROOT",
    "INTEL_SGX_ROOT_SHA256",
    "PLATFORMS",
    "AmdCollateral",
    "Collateral",
    "CollateralFacts",
    "CollateralRefusedError",
    "CollateralUnavailableError",
    "CollateralUnusableError",
    "ConfigurationRefusedError",
    "ExpectedIdentity",
    "Freshness",
    "IdentityRefusedError",
    "Mark",
    "Measurements",
    "NoSealingKeyError",
    "PckCa",
    "Platform",
    "PlatformKind",
    "PlatformMissingError",
    "PlatformUnusableError",
    "QuoteForm",
    "QuoteNotMadeError",
    "QuoteProblem",
    "QuoteRefusedError",
    "SealPolicy",
    "SnpIdentity",
    "SnpMeasurements",
    "SnpTcb",
    "TcbStatus",
    "TdMeasurements",
    "TdxIdentity",
    "Tee",
    "Verdict",
    "Verifier",
    "accept_tcb",
    "add_header",
    "appraise",
    "head_report_data",
    "marks_of",
    "marks_of_amd",
    "newer_marks",
    "open_platform",
    "platform_kind",
    "quote_binding",
    "read_amd_collateral",
    "read_collateral",
    "read_expected_identity",
    "read_facts",
    "read_form",
    "report_data",
    "require_as_new",
    "require_binding",
    "require_dcap",
    "require_report_data",
    "require_sound",
    "start_report_data",
    "write_collateral",
    "write_expected_identity",
]
