"""Quotes of the line: old bundles judge them at their time, and today's say what was revoked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from support.captured_log import capture_logs
from support.samples.machines import NOW, collateral, machines, platform

from keyhouse.attestation import Collateral, QuoteRefusedError, TcbStatus, write_collateral
from keyhouse.attestation.origin.rule import OriginRefusedError, OriginRule
from keyhouse.attestation.sources.selection import no_collateral
from keyhouse.base.errors import UnavailableError
from keyhouse.coordinator.origin.checks import Proof
from keyhouse.server.services.line_quotes import SINCE, LineQuotes
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse_simulation import QuoteParameters, SimulatedPlatform
from keyhouse_simulation.parameters import Lists, TcbInfo

BOUND = b"b" * 64
TIME = int(NOW.timestamp()) * 1_000_000
LATER = NOW + timedelta(days=400)
BEFORE = datetime(2026, 1, 1, tzinfo=UTC)


def _later(**parameters: object) -> Collateral:
    """Return what the vendor of both machines says 400 days later."""
    on = SimulatedPlatform(machines()[0], QuoteParameters(**parameters), now=lambda: LATER)  # type: ignore[arg-type]
    return on.collateral


def _quotes(
    today: Collateral | None, *, at: datetime = LATER, since: datetime = BEFORE
) -> LineQuotes:
    @asynccontextmanager
    async def checks() -> AsyncIterator[QuoteChecks]:
        found = no_collateral if today is None else lambda _: today
        yield QuoteChecks(platform().root_ca, found, lambda: at)

    return LineQuotes(platform(), checks, since=since)


def _old(used: Collateral | None = None) -> Proof:
    return Proof(platform().quote(BOUND), write_collateral(used or collateral()))


def test_an_old_quote_is_judged_by_the_bundle_of_its_time() -> None:
    outdated = _later(tcb_info=TcbInfo(status=TcbStatus.OUT_OF_DATE))
    found = asyncio.run(_quotes(outdated).judge(_old(), TIME, OriginRule()))
    assert (found.report_data, found.tcb_status) == (BOUND, "UpToDate")


def test_with_current_the_status_of_today_counts() -> None:
    outdated = _later(tcb_info=TcbInfo(status=TcbStatus.OUT_OF_DATE))
    with pytest.raises(OriginRefusedError, match="OutOfDate"):
        asyncio.run(_quotes(outdated).judge(_old(), TIME, OriginRule(current=True)))
    asyncio.run(_quotes(_later()).judge(_old(), TIME, OriginRule(current=True)))


def test_a_platform_that_was_outdated_then_is_refused() -> None:
    outdated = platform(info=TcbInfo(status=TcbStatus.OUT_OF_DATE)).collateral
    with pytest.raises(OriginRefusedError, match="OutOfDate"):
        asyncio.run(_quotes(_later()).judge(_old(outdated), TIME, OriginRule()))


def test_a_platform_that_is_revoked_today_is_refused() -> None:
    revoked = _later(lists=Lists(revokes_pck=True))
    with pytest.raises(QuoteRefusedError) as refused:
        asyncio.run(_quotes(revoked).judge(_old(), TIME, OriginRule()))
    assert refused.value.reason == "revoked"


def test_a_bundle_of_another_time_or_of_before_the_rule_is_refused() -> None:
    with pytest.raises(QuoteRefusedError):
        asyncio.run(_quotes(_later()).judge(_old(), TIME + 10**14, OriginRule()))
    with pytest.raises(OriginRefusedError, match="lines of roots"):
        asyncio.run(_quotes(_later(), since=SINCE).judge(_old(), TIME, OriginRule()))
    with pytest.raises(OriginRefusedError, match="bundle"):
        asyncio.run(_quotes(_later()).judge(replace(_old(), collateral=b"{"), TIME, OriginRule()))


def test_without_a_bundle_the_collateral_of_today_judges_all_of_it() -> None:
    proof = replace(_old(), collateral=b"")
    asyncio.run(_quotes(_later()).judge(proof, TIME, OriginRule()))
    outdated = _later(tcb_info=TcbInfo(status=TcbStatus.OUT_OF_DATE))
    with pytest.raises(OriginRefusedError, match="OutOfDate"):
        asyncio.run(_quotes(outdated).judge(proof, TIME, OriginRule()))
    with pytest.raises(UnavailableError):
        asyncio.run(_quotes(None).judge(proof, TIME, OriginRule()))


def test_a_platform_that_the_rule_refuses_is_told_when_a_manifest_takes_effect() -> None:
    outdated = platform(info=TcbInfo(status=TcbStatus.OUT_OF_DATE)).collateral
    with capture_logs() as entries:
        asyncio.run(_quotes(outdated, at=NOW).make(BOUND, OriginRule()))
        asyncio.run(_quotes(outdated, at=NOW).make(BOUND, OriginRule(statuses=("OutOfDate",))))
    (warned,) = (each for each in entries if "would refuse the quote" in str(each["event"]))
    assert "OutOfDate" in str(warned["reason"])


def test_a_quote_that_is_made_verifies_and_has_its_bundle() -> None:
    made = asyncio.run(_quotes(collateral(), at=NOW).make(BOUND, OriginRule()))
    assert made.collateral == write_collateral(collateral())
    assert (
        asyncio.run(_quotes(None).make(BOUND, OriginRule())).collateral == b""
    )  # none here: warned
    other = SimulatedPlatform(machines()[0], QuoteParameters(), now=lambda: NOW).collateral
    revoked = _later(lists=Lists(revokes_pck=True))
    assert other != revoked
    with pytest.raises(UnavailableError, match="revoked"):
        asyncio.run(_quotes(revoked).make(BOUND, OriginRule()))
