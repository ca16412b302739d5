"""Quotes: their verification, their collateral, and the platforms that make them.

A quote is a statement that the hardware vendor's keys sign: this enclave or confidential VM, with
these measurements, runs on this platform and chose these 64 bytes of report data. ``Verifier``
proves that a quote is true. ``appraisal`` and ``identity`` decide whether its code is accepted.
``quote.binding`` defines the report data, which connects a quote to a certificate, a nonce or a
message.
"""

from keyhouse.attestation.collateral.amd import AmdCollateral, read_amd_collateral
from keyhouse.attestation.collateral.bundle import Collateral, read_collateral, write_collateral
from keyhouse.attestation.collateral.facts import (
    CollateralFacts,
    Mark,
    PckCa,
    PlatformKind,
    marks_of,
    newer_marks,
    read_facts,
    require_as_new,
    require_sound,
)
from keyhouse.attestation.errors import (
    CollateralRefusedError,
    CollateralUnavailableError,
    ConfigurationRefusedError,
    IdentityRefusedError,
    QuoteProblem,
    QuoteRefusedError,
)
from keyhouse.attestation.identity import ExpectedIdentity, read_expected_identity
from keyhouse.attestation.kinds.table import Verifier, add_header, platform_kind, read_form
from keyhouse.attestation.platforms.files import NoSealingKeyError, PlatformUnusableError
from keyhouse.attestation.platforms.find import PlatformMissingError, open_platform
from keyhouse.attestation.platforms.platform import Measurements, Platform, SealPolicy
from keyhouse.attestation.quote.binding import (
    head_report_data,
    quote_binding,
    report_data,
    start_report_data,
)
from keyhouse.attestation.quote.report import QuoteForm, Tee, Verdict
from keyhouse.attestation.vendor_roots import AMD_ROOTS, INTEL_SGX_ROOT
from keyhouse.wire.kinds.snp import SnpTcb
from keyhouse.wire.tcb_status import TcbStatus
