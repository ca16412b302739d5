"""Try the platform of a confidential VM: make and verify a quote, and derive sealing keys."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from keyhouse.attestation import AMD_ROOTS, INTEL_SGX_ROOT, AmdCollateral, Collateral
from keyhouse.attestation.platforms.find import open_for_quotes
from keyhouse.attestation.platforms.platform import Platform, SealPolicy
from keyhouse.attestation.quote.binding import REPORT_DATA
from keyhouse.cli.attest.quote_explanation import QuoteTrust, explain_quote
from keyhouse.cli.doctor.hardware.attempts import as_section, attempt, print_line, worst
from keyhouse.cli.doctor.hardware.quotes import quote_section
from keyhouse.cli.doctor.hardware.report import (
    MemorySection,
    QuoteSection,
    RecoverySection,
    RestartSection,
    SealPolicySection,
    SealSection,
    Section,
    StartSection,
    Trial,
)

OpenPlatform = Callable[[], Platform]
CollateralSource = Collateral | Callable[[bytes], Collateral]
TrustOf = Callable[[bytes], QuoteTrust]
"""Return the roots and the collateral for a quote."""


def open_guest(name: str) -> OpenPlatform:
    """Return a function that opens the platform ``name``, ``tdx`` or ``snp``, of this VM."""
    return lambda: open_for_quotes(name, Path())


def trust_of_vendors(source: CollateralSource | None, amd: AmdCollateral | None) -> TrustOf:
    """Return a function from a quote to the roots and the collateral for this quote.

    The roots are the pinned roots of Intel and AMD. ``source`` is Intel's collateral, or a function
    to fetch this collateral. ``amd`` is AMD's collateral. If a parameter is None, quotes of its
    vendor are not verified.
    """

    def trust(quote: bytes) -> QuoteTrust:
        bundle = source(quote) if callable(source) else source
        return QuoteTrust(INTEL_SGX_ROOT, bundle, AMD_ROOTS, amd)

    return trust


def try_quote(open_platform: OpenPlatform, trust_of: TrustOf) -> QuoteSection:
    """Make and verify a quote of this VM; return the report's section about the quote.

    The report data are random. ``open_platform`` opens the platform of the VM. ``trust_of`` returns
    the roots and the collateral for a quote.
    """

    def work() -> QuoteSection:
        quote = open_platform().quote(secrets.token_bytes(REPORT_DATA))
        explanation = explain_quote(quote, trust_of(quote), datetime.now(UTC), None)
        if explanation.failure is not None:
            print_line(f"  failed: {explanation.failure.message}")
            if explanation.failure.hint:
                print_line(f"  next step: {explanation.failure.hint}")
        return quote_section(explanation)

    section, found = attempt("making a quote of this VM, and verifying it", work)
    return found if found is not None else as_section(QuoteSection, section)


def try_seal(open_platform: OpenPlatform) -> SealSection:
    """Derive a sealing key for each policy; return the report's section about sealing.

    ``open_platform`` opens the platform of the VM. If this platform has no sealing key, the outcome
    is ``skipped`` with the reason ``no-sealing-key``.
    """
    from keyhouse.attestation.platforms.files import NoSealingKeyError

    policies = []
    for policy in SealPolicy:

        def work(policy: SealPolicy = policy) -> str:
            try:
                open_platform().sealing_key(policy)
            except NoSealingKeyError as refused:
                return refused.code
            return ""

        section, code = attempt(f"deriving a sealing key for {policy}", work)
        if code:
            policies.append(SealPolicySection(policy=policy.value, outcome="skipped", reason=code))
        else:
            policies.append(as_section(SealPolicySection, section, policy=policy.value))
    return as_section(SealSection, worst(policies), policies=tuple(policies))


def skipped_trial(seal: SealSection, reason: str) -> Trial:
    """Return a trial without a coordinator: every section but ``seal`` is skipped.

    ``reason`` is the stable word for these sections. ``seal`` is the section of ``try_seal``.
    """
    skipped = Section(outcome="skipped", reason=reason)
    return Trial(
        platform="",
        seal=seal,
        start=as_section(StartSection, skipped),
        restart=as_section(RestartSection, skipped),
        recovery=as_section(RecoverySection, skipped),
        memory=as_section(MemorySection, skipped),
    )
