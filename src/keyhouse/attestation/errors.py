"""Why a quote, its collateral or the identity in it was refused.

::

    Refused
     +-- QuoteRefused       the quote does not verify; ``reason`` says why
     +-- CollateralRefused  the bundle of collateral is unreadable
     |    +-- CollateralUnusable  it is readable but not true, not now, or not of this platform
     +-- IdentityRefused    a valid quote, but of another identity than expected
     +-- ConfigurationRefused  what was expected is itself incomplete or unreadable
    Unavailable
     +-- CollateralUnavailable  no collateral is available now, so the quote cannot be verified
"""

from enum import StrEnum

from keyhouse.base.errors import Refused, Unavailable

__all__ = [
    "CollateralRefused",
    "CollateralUnavailable",
    "CollateralUnusable",
    "ConfigurationRefused",
    "IdentityRefused",
    "QuoteProblem",
    "QuoteRefused",
]


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
    OTHER = "not-verified"


class QuoteRefused(Refused):
    """The quote does not verify."""

    code = "quote-refused"

    def __init__(self, reason: QuoteProblem, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class CollateralRefused(Refused):
    """The bundle of collateral cannot be used."""

    code = "collateral-refused"


class CollateralUnusable(CollateralRefused):
    """The collateral is not true, not in its time, or of another platform: see ``reason``."""

    def __init__(self, reason: QuoteProblem, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class CollateralUnavailable(Unavailable):
    """No collateral is available now. The quote has not been verified."""

    code = "collateral-unavailable"


class ConfigurationRefused(Refused):
    """What was expected is incomplete, contradictory or unreadable."""

    code = "attestation-configuration"


class IdentityRefused(Refused):
    """The quote is true, but speaks for somebody else, or its platform is not accepted."""

    code = "identity-refused"
