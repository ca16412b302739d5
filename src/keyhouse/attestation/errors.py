"""Errors for quotes, collateral and identities.

::

    RefusedError
     +-- QuoteRefusedError          the quote does not verify; ``reason`` says why
     +-- CollateralRefusedError     the bundle of collateral is unreadable
     |    +-- CollateralUnusableError   readable, but not true, not in time, or for another platform
     +-- IdentityRefusedError       a true quote with another identity than expected
     +-- ConfigurationRefusedError  the expected identity is incomplete or unreadable
    UnavailableError
     +-- CollateralUnavailableError  no collateral is available now, so no quote can be verified

Errors of the quote library get our own texts; the text of the library is never shown.
"""

from collections.abc import Sequence
from enum import StrEnum

from keyhouse.base.errors import Problem, RefusedError, UnavailableError


class QuoteProblem(StrEnum):
    """Reasons why a quote does not verify: stable words for programs."""

    MALFORMED = "malformed"
    SIGNATURE = "signature"
    CHAIN = "certificate-chain"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    REVOKED = "revoked"
    WRONG_PLATFORM = "wrong-platform"  # FMSPC or pceId differ
    COLLATERAL = "collateral"
    QUOTING_ENCLAVE = "quoting-enclave"
    TCB_LEVEL = "no-tcb-level"
    DEBUG = "debug"
    TD_ATTRIBUTES = "td-attributes"  # attributes that weaken a confidential VM
    SERVICE_TD = "service-td"
    TDX_MODULE = "tdx-module"
    GUEST_POLICY = "guest-policy"  # of AMD: the host could read the VM
    OTHER = "not-verified"


class QuoteRefusedError(RefusedError):
    """A quote does not verify: ``reason`` says why."""

    code = "quote-refused"
    next_step = "request a new quote, and do not trust this quote"

    def __init__(self, reason: QuoteProblem, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class CollateralRefusedError(RefusedError):
    """The collateral from a file, a PCCS or AMD cannot be used."""

    code = "collateral-refused"
    next_step = "fetch the collateral again"


class CollateralUnusableError(CollateralRefusedError):
    """The collateral is not true, not valid now, or for another platform: see ``reason``."""

    def __init__(self, reason: QuoteProblem, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class CollateralUnavailableError(UnavailableError):
    """No collateral is available now. The quote has not been verified."""

    code = "collateral-unavailable"


class ConfigurationRefusedError(RefusedError):
    """The expected identity is incomplete, contradictory or unreadable.

    ``problems``: all problems, each with its place in the file; empty for a problem without a
    place.
    """

    code = "attestation-configuration"

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class IdentityRefusedError(RefusedError):
    """The quote is true, but its identity differs, or its platform is not accepted."""

    code = "identity-refused"


_CLOCK = "check this machine's clock; if the clock is right, fetch the collateral again"
_FETCH = "use the collateral and the root of the platform that made the quote"
_FORGED = "do not trust the quote: someone changed it on the way, or an unknown party made it"
_UPDATE = "ask the operator of the platform to update or replace the platform"

# The first row with a word in the library's text, in lower case, decides.
_WORDS: tuple[tuple[QuoteProblem, tuple[str, ...]], ...] = (
    (QuoteProblem.DEBUG, ("debug mode is enabled", "debug")),
    (QuoteProblem.REVOKED, ("revoked",)),
    (QuoteProblem.NOT_YET_VALID, ("in the future",)),
    (QuoteProblem.EXPIRED, ("expired",)),
    (QuoteProblem.WRONG_PLATFORM, ("fmspc mismatch", "tcb info in the collateral")),
    (QuoteProblem.TCB_LEVEL, ("no matching tcb level", "tcb level", "current tdx tcb")),
    (QuoteProblem.SERVICE_TD, ("mr service td", "servtd_ext", "td migration")),
    (QuoteProblem.TD_ATTRIBUTES, ("sept_ve_disable", "td profiling", "td attributes")),
    (QuoteProblem.TDX_MODULE, ("tdx module",)),
    (QuoteProblem.SIGNATURE, ("signature is invalid",)),
    (
        QuoteProblem.QUOTING_ENCLAVE,
        ("qe report", "qe mrsigner", "qe isv", "qe attributes", "qe miscselect", "qe vendor"),
    ),
    (QuoteProblem.CHAIN, ("certificate", "parse certs", "crl", "root ca")),
    (
        QuoteProblem.COLLATERAL,
        ("tcbinfo", "tcb info", "component count", "qeidentity", "qe identity"),
    ),
)

_MESSAGES: dict[QuoteProblem, tuple[str, str]] = {
    QuoteProblem.DEBUG: (
        "the quote is of a debug enclave or confidential VM, whose memory anybody can read",
        "build and sign the enclave, or start the VM, with debug switched off",
    ),
    QuoteProblem.TD_ATTRIBUTES: (
        "TDATTRIBUTES weaken the confidential VM: profiling, no SEPT_VE_DISABLE, or reserved bits",
        "start the VM with SEPT_VE_DISABLE, and without profiling",
    ),
    QuoteProblem.SERVICE_TD: (
        "a service TD may change or move the confidential VM (MRSERVICETD, TDATTRIBUTES)",
        "start the VM without service TDs, also without a migration TD",
    ),
    QuoteProblem.TDX_MODULE: (
        "the TDX module that runs the confidential VM is not the platform vendor's",
        "ask the operator of the platform to load the vendor's TDX module",
    ),
    QuoteProblem.GUEST_POLICY: (
        "the guest policy weakens the confidential VM",
        "start the VM with another guest policy",
    ),
    QuoteProblem.REVOKED: ("the platform or one of its certificates has been revoked", _UPDATE),
    QuoteProblem.NOT_YET_VALID: ("a part of the collateral is not valid yet", _CLOCK),
    QuoteProblem.EXPIRED: ("the collateral or a certificate has expired", _CLOCK),
    QuoteProblem.WRONG_PLATFORM: ("the collateral is for another kind of platform", _FETCH),
    QuoteProblem.TCB_LEVEL: (
        "the TCB of the platform is below every TCB level in the collateral",
        _UPDATE,
    ),
    QuoteProblem.QUOTING_ENCLAVE: ("the quoting enclave is not the platform vendor's", _FORGED),
    QuoteProblem.SIGNATURE: ("a signature of the quote or its collateral is wrong", _FORGED),
    QuoteProblem.CHAIN: ("the certificates of the quote do not lead to the pinned root", _FETCH),
    QuoteProblem.COLLATERAL: ("the collateral is unreadable", _FETCH),
    QuoteProblem.MALFORMED: ("the quote is malformed", _FORGED),
    QuoteProblem.OTHER: ("the quote library does not accept the quote", _FORGED),
}


def reason_for(text: str) -> QuoteProblem:
    """Return the problem that ``text`` describes; ``OTHER`` for an unknown text.

    ``text`` is an error text of ``dcap_qvl``, the library that verifies DCAP quotes.
    """
    folded = text.lower()
    for reason, words in _WORDS:
        if any(word in folded for word in words):
            return reason
    return QuoteProblem.OTHER


def refusal(reason: QuoteProblem) -> QuoteRefusedError:
    """Return the refusal of a quote for ``reason``, with our own text."""
    message, hint = _MESSAGES[reason]
    return QuoteRefusedError(reason, f"the quote does not verify: {message}", hint=hint)
