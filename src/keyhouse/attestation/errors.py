"""Why a quote, its collateral or the identity in it was refused.

::

    RefusedError
     +-- QuoteRefusedError          the quote does not verify; ``reason`` says why
     +-- CollateralRefusedError     the bundle of collateral is unreadable
     |    +-- CollateralUnusableError   readable but not true, not now, or not of this platform
     +-- IdentityRefusedError       a valid quote, but of another identity than expected
     +-- ConfigurationRefusedError  what was expected is itself incomplete or unreadable
    UnavailableError
     +-- CollateralUnavailableError  no collateral is available now, so the quote cannot be verified
"""

from collections.abc import Sequence
from enum import StrEnum

from keyhouse.base.errors import Problem, RefusedError, UnavailableError


class QuoteProblem(StrEnum):
    """Why a quote does not verify: stable words for programs."""

    MALFORMED = "malformed"
    SIGNATURE = "signature"
    CHAIN = "certificate-chain"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    REVOKED = "revoked"
    WRONG_PLATFORM = "wrong-platform"  # FMSPC or pceId of another platform
    COLLATERAL = "collateral"
    QUOTING_ENCLAVE = "quoting-enclave"
    TCB_LEVEL = "no-tcb-level"
    DEBUG = "debug"
    TD_ATTRIBUTES = "td-attributes"  # some that weaken a confidential VM
    SERVICE_TD = "service-td"
    TDX_MODULE = "tdx-module"
    GUEST_POLICY = "guest-policy"  # of SNP: one that lets its host in
    OTHER = "not-verified"


class QuoteRefusedError(RefusedError):
    """The quote does not verify."""

    code = "quote-refused"

    def __init__(self, reason: QuoteProblem, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class CollateralRefusedError(RefusedError):
    """The bundle of collateral cannot be used."""

    code = "collateral-refused"


class CollateralUnusableError(CollateralRefusedError):
    """The collateral is not true, not in its time, or of another platform: see ``reason``."""

    def __init__(self, reason: QuoteProblem, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class CollateralUnavailableError(UnavailableError):
    """No collateral is available now. The quote has not been verified."""

    code = "collateral-unavailable"


class ConfigurationRefusedError(RefusedError):
    """What was expected is incomplete, contradictory or unreadable.

    ``problems``: every finding, each at its place in the file; empty if it is about no place.
    """

    code = "attestation-configuration"

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class IdentityRefusedError(RefusedError):
    """The quote is true, but is of another enclave, or its platform is not accepted."""

    code = "identity-refused"
