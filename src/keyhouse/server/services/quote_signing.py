"""Signing a quote that verifies: for clients that trust the root key and no vendor of CPUs."""

from typing import NamedTuple

from keyhouse.attestation import QuoteProblem, QuoteRefusedError, TcbStatus
from keyhouse.authority import sign_quote_text
from keyhouse.coordinator import Engine, Operation, View
from keyhouse.manifest import FeatureGate
from keyhouse.server.services.access import require_enabled
from keyhouse.server.services.quote_checks import QuoteChecks


class Signed(NamedTuple):
    """A quote that verified."""

    tcb_status: TcbStatus
    signature: bytes  # by the root key, over quote and status
    view: View  # the view whose manifest enables this


class QuoteSigning:
    """Signs with the root key of ``engine`` what ``checks`` verifies, on the thread of the latter.

    Anyone may ask, so no other thread is used.
    """

    def __init__(self, engine: Engine, checks: QuoteChecks) -> None:
        self._engine = engine
        self._checks = checks

    async def sign(self, quote: bytes) -> Signed:
        """Sign ``quote`` as it was submitted, with the header in front or without.

        It is compared with no package. Source: Client API, "sign-quote".

        Raises:
            QuoteRefusedError: it does not verify, or its vendor states no TCB status (SEV-SNP).
            BadRequestError: its length is ambiguous.
            WrongPhaseError, ForbiddenError: not enabled, or not any more.
            UnavailableError: not now.
        """
        verdict = await self._checks.verify(quote)
        # The manifest may have been replaced by one that does not enable this.
        view = self._engine.view
        require_enabled(view, Operation.SIGN_QUOTE, FeatureGate.SIGN_QUOTE_ENDPOINT)
        keys, status = view.state.keys, verdict.tcb_status
        if status is None:
            raise QuoteRefusedError(
                QuoteProblem.TCB_LEVEL,
                "only quotes with a TCB status are signed, and the vendor of this one states none",
                hint="verify reports of SEV-SNP where they are used",
            )
        signature = await self._checks.in_turn(lambda: sign_quote_text(keys, quote, status))
        return Signed(status, signature, view)
