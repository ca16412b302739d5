"""Quotes for the entries of the line: made by this process, and judged at each proof of a line.

An entry may be years old. So its quote is verified with the bundle beside the entry, at the time of
the entry. Today's collateral shows whether the platform was revoked since then. An entry without a
bundle, as with AMD, is judged by today's collateral alone.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import Final

from keyhouse.attestation import (
    AmdCollateral,
    Collateral,
    CollateralRefusedError,
    Platform,
    PlatformUnusableError,
    QuoteProblem,
    QuoteRefusedError,
    Verdict,
    Verifier,
    read_collateral,
    report_data as bound_alone,
    write_collateral,
)
from keyhouse.attestation.kinds.table import read_form, read_report
from keyhouse.attestation.origin.rule import OriginRefusedError, OriginRule
from keyhouse.attestation.quote.report import Report
from keyhouse.attestation.sources.selection import CollateralSettings, beside
from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.base.log import log
from keyhouse.coordinator import MakeQuote, StartQuote
from keyhouse.coordinator.origin.checks import Proof
from keyhouse.server.services.quote_checks import QuoteChecks, VerifiedQuote

SINCE: Final = datetime(2026, 10, 1, tzinfo=UTC)
"""No entry of a line has a bundle that was issued before this day.

Lines exist since November 2026, and Intel's documents are valid for 30 days.
"""

WITHIN: Final = 5.0
"""Seconds to wait for the collateral of this process's own quote. Changes wait meanwhile."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

OpenChecks = Callable[[], AbstractAsyncContextManager[QuoteChecks]]
"""Opens checks with today's collateral, for as long as the context lasts."""


def own_quotes(platform: Platform, collateral: CollateralSettings) -> MakeQuote:
    """Return a function that makes a quote of this process, over 64 bytes of report data.

    ``platform`` signs the quote. The result also has the collateral that is available without a
    network, by the settings ``collateral``.
    """

    def make(report_data: bytes) -> StartQuote:
        quote = platform.quote(report_data)
        return StartQuote(quote, beside(collateral, platform, quote))

    return make


class LineQuotes:
    """Makes the quotes of ``platform`` for entries of a line, and judges such quotes.

    ``open_checks`` opens checks with today's collateral, until ``verify_by`` provides the checks of
    the engine. ``since``: bundles that were issued earlier are refused.
    """

    def __init__(
        self, platform: Platform, open_checks: OpenChecks, *, since: datetime = SINCE
    ) -> None:
        self._platform = platform
        self._open_checks = open_checks
        self._checks: QuoteChecks | None = None
        self._opened = AsyncExitStack()
        self._since = since
        self._own: Report | None = None

    async def verify_by(self, checks: QuoteChecks) -> None:
        """Verify all later quotes of entries with ``checks``, the checks of the engine."""
        await self.close()
        self._checks = checks

    async def close(self) -> None:
        """Close the checks that this object opened."""
        self._checks = None
        await self._opened.aclose()

    async def own(self) -> Report:
        """Return the code that quotes of this process state. Raises ``UnavailableError``.

        An enclave knows its measurements. A confidential VM makes a quote for this purpose, once.
        """
        if self._own is None:
            self._own = await asyncio.to_thread(self._measured)
        return self._own

    def _measured(self) -> Report:
        try:
            own = self._platform.measurements
        except PlatformUnusableError:
            return read_report(read_form(self._platform.quote(bound_alone(bytes(32)))))
        return Report(
            bytes(64),
            debug=False,
            mrenclave=own.unique_id,
            mrsigner=own.signer_id,
            isvprodid=own.product_id,
            isvsvn=own.security_version,
        )

    async def make(self, report_data: bytes, rule: OriginRule) -> Proof:
        """Return a verified quote of this process over ``report_data``, with its bundle.

        Without collateral, return an unverified quote without a bundle; a later proof of the line
        verifies the quote with its own collateral. The process logs a warning in this case, and if
        ``rule`` refuses the platform. Raises ``UnavailableError``.
        """
        try:
            quote = await asyncio.to_thread(self._platform.quote, report_data)
        except KeyhouseError as error:
            raise UnavailableError(
                f"no quote can be made, so the manifest takes no effect: {error.message}",
                hint=error.hint or "try again when the platform makes quotes again",
            ) from None
        try:
            async with asyncio.timeout(WITHIN):
                today = await self._today(quote)
        except QuoteRefusedError as refused:
            if refused.reason is not QuoteProblem.EXPIRED:
                raise UnavailableError(
                    "the quote of this coordinator does not verify, so the manifest takes no"
                    f" effect: {refused.message}",
                    hint=refused.hint,
                ) from None
            _warn(refused)
            return Proof(quote, b"")
        except (UnavailableError, TimeoutError) as unavailable:
            _warn(unavailable)
            return Proof(quote, b"")
        try:
            rule.require_platform(today.verdict)
        except OriginRefusedError as refused:
            log.warning(
                "a recovery or another coordinator would refuse the quote of this manifest",
                reason=refused.message,
            )
        return Proof(quote, await asyncio.to_thread(_encoded, today.collateral))

    async def judge(self, proof: Proof, time: int, rule: OriginRule) -> Verdict:
        """Return the verdict on ``proof``, the quote of an entry of the line with its bundle.

        ``time``: the time of the entry, in microseconds since 1970. ``rule`` decides about the
        platform. Raises ``OriginRefusedError``, ``QuoteRefusedError`` or ``UnavailableError``.
        """
        today = (await self._today(proof.quote)).verdict
        if not proof.collateral:
            rule.require_platform(today)
            return today
        then = await asyncio.to_thread(self._then, proof, time)
        rule.require_platform(today if rule.current else then)
        return then

    def _then(self, proof: Proof, time: int) -> Verdict:
        try:
            collateral = read_collateral(proof.collateral)
        except CollateralRefusedError as refused:
            raise OriginRefusedError(refused.message, hint=refused.hint) from None
        verifier = Verifier(self._platform.root_ca)
        verdict = verifier.verify(proof.quote, collateral, _EPOCH + timedelta(microseconds=time))
        if verdict.freshness.issued < self._since:
            raise OriginRefusedError(
                "the collateral of the quote was issued before lines of roots existed",
                hint="restore the objects of the transparency log from a backup",
            )
        return verdict

    async def _today(self, quote: bytes) -> VerifiedQuote:
        """Verify ``quote`` with today's collateral. An outdated TCB status is not refused here."""
        if self._checks is None:
            checks = await self._opened.enter_async_context(self._open_checks())
            self._checks = self._opened.enter_context(closing(checks))
        return await self._checks.verified(quote)


def _encoded(collateral: Collateral | AmdCollateral) -> bytes:
    return write_collateral(collateral) if isinstance(collateral, Collateral) else b""


def _warn(error: KeyhouseError | TimeoutError) -> None:
    log.warning(
        "no collateral beside the quote of a manifest: a recovery or another coordinator judges it"
        " with the collateral of that day",
        reason=error.message if isinstance(error, KeyhouseError) else "no answer in time",
    )
