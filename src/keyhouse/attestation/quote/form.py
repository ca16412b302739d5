"""The parts of a quote, and the kinds of environments that make quotes."""

from enum import StrEnum
from typing import Final

import msgspec

from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError
from keyhouse.wire.kinds import VM_KINDS

MAX_QUOTE: Final = 65_536
"""Maximum length in bytes of a quote. Real quotes have about 5,000."""


class Tee(StrEnum):
    """The kind of environment that made the quote."""

    SGX = "sgx"
    TDX = "tdx"
    SNP = "snp"

    @property
    def in_words(self) -> str:
        """The kind of environment as text for people."""
        return f"a confidential VM ({self.upper()})" if self.is_vm else "an SGX enclave"

    @property
    def is_vm(self) -> bool:
        """Whether the quote is of a confidential VM, not of an enclave."""
        return self.upper() in VM_KINDS

    @property
    def states_tcb(self) -> bool:
        """False if the vendor states no TCB status; a package then states required versions."""
        return not self.is_vm or VM_KINDS[self.upper()].STATES_TCB


class QuoteForm(msgspec.Struct, frozen=True):
    """A whole quote, split along its lengths. Nothing is verified."""

    raw: bytes  # without the transport header, of exact length
    tee: Tee
    chain: bytes  # the certificates beside its report, in the form of its kind


def malformed(problem: str) -> QuoteRefusedError:
    """Return the refusal of a malformed quote."""
    return QuoteRefusedError(QuoteProblem.MALFORMED, f"the quote is malformed: {problem}")
