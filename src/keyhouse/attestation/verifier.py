"""Verifies evidence of any kind. Data of one kind never counts for another kind."""

from datetime import datetime

from keyhouse.attestation.collateral.amd import AmdCollateral
from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.collateral.signatures import require_vendor_root
from keyhouse.attestation.errors import QuoteProblem, refusal
from keyhouse.attestation.kinds.dcap.verify import library
from keyhouse.attestation.kinds.snp.authority import Roots
from keyhouse.attestation.kinds.table import KINDS, Anchors, read_form
from keyhouse.attestation.quote.verdict import Verdict


class Verifier:
    """Verifies quotes under pinned root certificates, DER. Threads may share it.

    ``root_ca``: the root for quotes of SGX and TDX. ``amd_roots``: the roots of AMD by line of
    processors; without them its reports are refused. Raises ``ConfigurationRefusedError`` if
    ``root_ca`` is not a root certificate.
    """

    def __init__(self, root_ca: bytes, amd_roots: Roots | None = None) -> None:
        require_vendor_root(root_ca)
        self._anchors = Anchors(root_ca, amd_roots or {})

    def load(self) -> None:
        """Load the quote library now, so that the first quote does not wait for the loading."""
        library(self._anchors.intel)

    def verify(self, quote: bytes, collateral: Collateral | AmdCollateral, at: datetime) -> Verdict:
        """Return the verdict of ``quote`` (raw, or with the 16-byte header) at the time ``at``.

        For any bytes, the only possible exception is ``QuoteRefusedError`` with its reason. ``at``
        is a time with a zone. An appraisal still has to check TCB status and identity.
        """
        if at.tzinfo is None:
            raise ValueError("the time of verification needs a zone")
        form = read_form(quote)
        kind = KINDS[form.tee]
        if not isinstance(collateral, kind.collateral):
            raise refusal(QuoteProblem.WRONG_PLATFORM)
        return kind.verify(form, collateral, self._anchors, at)
