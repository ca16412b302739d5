"""Verifying quotes for anybody: at an injected time, few at once, refusals remembered briefly."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest
from support.samples.collateral import Site

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    Collateral,
    PlatformKind,
    QuoteProblem,
    QuoteRefusedError,
    TcbStatus,
    Tee,
    add_header,
    read_collateral,
)
from keyhouse.attestation.kinds.dcap.verify import library
from keyhouse.attestation.sources.selection import CollateralNow, no_collateral
from keyhouse.base.errors import UnavailableError
from keyhouse.server.services.quote_checks import (
    FETCHES_AT_ONCE,
    REMEMBERED,
    REMEMBERED_FOR,
    WAITING,
    QuoteChecks,
)

VECTORS = Path(__file__).parents[2] / "attestation" / "vectors"
AT = datetime.fromtimestamp(1751328000, UTC)


def quote(name: str) -> bytes:
    return (VECTORS / name).read_bytes()


def collateral(name: str) -> Collateral:
    return read_collateral((VECTORS / f"{name}_collateral.json").read_bytes())


class Desk:
    """What the checks look at: collateral that counts how often it is asked for, and the times."""

    def __init__(self, found: Collateral, at: datetime = AT) -> None:
        self.collateral, self.at, self.asked = found, at, 0
        self.passed = timedelta()

    def __call__(self, _quote: bytes) -> Collateral:
        self.asked += 1
        return self.collateral

    def pace(self) -> float:
        return self.passed.total_seconds()


@contextmanager
def checking(desk: Desk, given: CollateralNow | None = None) -> Iterator[QuoteChecks]:
    checks = QuoteChecks(INTEL_SGX_ROOT, given or desk, lambda: desk.at, pace=desk.pace)
    try:
        yield checks
    finally:
        checks.close()


async def refusal(checks: QuoteChecks, given: bytes) -> QuoteProblem:
    with pytest.raises(QuoteRefusedError) as caught:
        await checks.verify(given)
    return caught.value.reason


async def test_recorded_quotes_have_their_status_at_their_time() -> None:
    desk = Desk(collateral("sgx_quote"))
    with checking(desk) as checks:
        for form in (quote("sgx_quote"), add_header(quote("sgx_quote"))):
            verdict = await checks.verify(form)
            assert verdict.tcb_status is TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED
        desk.collateral = collateral("tdx_quote")
        assert (await checks.verify(quote("tdx_quote"))).tcb_status is TcbStatus.UP_TO_DATE
        desk.collateral = collateral("tdx_quote_outdated")
        desk.at = datetime.fromtimestamp(1771498731, UTC)
        assert await refusal(checks, quote("tdx_quote_outdated")) is QuoteProblem.TCB_LEVEL


async def test_what_verifies_quotes_can_be_there_before_the_first() -> None:
    with checking(Desk(collateral("sgx_quote"))) as checks:
        library.cache_clear()
        await checks.warm_up()
        assert library.cache_info().currsize == 1


async def test_bytes_before_and_after_a_quote_are_refused() -> None:
    whole = quote("sgx_quote")
    with checking(Desk(collateral("sgx_quote"))) as checks:
        for bent in (b"", whole + b"\0", b"\0" + whole, whole[:-1], add_header(whole) + b"\0"):
            assert await refusal(checks, bent) is QuoteProblem.MALFORMED


async def test_a_refused_quote_is_refused_again_without_a_check_for_a_while() -> None:
    desk = Desk(collateral("tdx_quote"))
    with checking(desk) as checks:
        for _ in range(5):
            assert await refusal(checks, quote("sgx_quote")) is QuoteProblem.WRONG_PLATFORM
        assert desk.asked == 1
        desk.collateral = collateral("sgx_quote")
        desk.passed += REMEMBERED_FOR - timedelta(microseconds=1)
        assert await refusal(checks, quote("sgx_quote")) is QuoteProblem.WRONG_PLATFORM
        desk.passed += timedelta(microseconds=1)  # whatever the host's clock says
        await checks.verify(quote("sgx_quote"))
        assert desk.asked == 2


async def test_only_the_newest_refusals_are_remembered() -> None:
    desk = Desk(collateral("sgx_quote"))
    with checking(desk) as checks:
        for number in range(REMEMBERED + 1):
            await refusal(checks, b"%d" % number)
        asked = desk.asked
        await refusal(checks, b"%d" % REMEMBERED)
        assert desk.asked == asked
        await refusal(checks, b"0")
        assert desk.asked == asked + 1


async def test_an_expired_bundle_is_refused_at_the_time_of_the_call() -> None:
    desk = Desk(collateral("sgx_quote"), AT + timedelta(days=400))
    with checking(desk) as checks:
        assert await refusal(checks, quote("sgx_quote")) is QuoteProblem.EXPIRED


async def test_without_collateral_callers_are_told_to_come_again() -> None:
    with (
        checking(Desk(collateral("sgx_quote")), no_collateral) as checks,
        pytest.raises(UnavailableError, match="--pccs"),
    ):
        await checks.verify(quote("sgx_quote"))


async def test_only_so_many_callers_may_wait() -> None:
    """The collateral is held back until the queue has been looked at."""
    desk, go_on = Desk(collateral("sgx_quote")), Event()

    def held_back(quote: bytes) -> Collateral:
        assert go_on.wait(30)
        return desk(quote)

    with checking(desk, held_back) as checks:
        callers = [
            asyncio.create_task(checks.verify(quote("sgx_quote"))) for _ in range(WAITING + 6)
        ]
        while sum(each.done() for each in callers) < 6:  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0)
        for each in callers:
            each.cancel()
        answers = await asyncio.gather(*callers, return_exceptions=True)
        assert sum(isinstance(each, UnavailableError) for each in answers) == 6
        go_on.set()
        await checks.verify(quote("sgx_quote"))


async def test_a_client_with_many_quotes_keeps_another_waiting_for_one_of_them() -> None:
    desk, go_on, checked = Desk(collateral("sgx_quote")), Event(), list[str]()

    def held_back(quote: bytes) -> Collateral:
        assert go_on.wait(30)
        return desk(quote)

    async def verify(client: bytes) -> None:
        await checks.verify(quote("sgx_quote"), client)
        checked.append(client.decode())

    with checking(desk, held_back) as checks:
        callers = [asyncio.create_task(verify(b"greedy")) for _ in range(100)]
        await asyncio.sleep(0)
        callers.append(asyncio.create_task(verify(b"modest")))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*callers)
    assert checked.index("modest") <= 2
    assert len(checked) == 101


class PerPlatform:
    """Collateral for each kind of platform, which notes what it is asked for."""

    def __init__(self, found: Collateral) -> None:
        self.found, self.asked = found, list[PlatformKind]()

    def at_hand(self, kind: PlatformKind) -> Collateral | None:
        del kind
        return None

    async def collateral_of(self, kind: PlatformKind) -> Collateral:
        self.asked.append(kind)
        return self.found


async def test_collateral_is_asked_for_by_the_platform_that_the_vendor_certified() -> None:
    source = PerPlatform(collateral("sgx_quote"))
    checks = QuoteChecks(INTEL_SGX_ROOT, source, lambda: AT)
    stranger = Site().quote
    try:
        await checks.verify(quote("sgx_quote"))
        assert [str(kind) for kind in source.asked] == ["sgx-00a067110000-processor"]
        assert await refusal(checks, stranger) is QuoteProblem.CHAIN
        assert await refusal(checks, quote("sgx_quote")[:-1]) is QuoteProblem.MALFORMED
        assert len(source.asked) == 1
    finally:
        checks.close()


async def test_a_slow_pccs_keeps_those_in_turn_who_wait_for_it_and_no_others() -> None:
    all_ask, answered = asyncio.Event(), asyncio.Event()

    class Slow(PerPlatform):
        def at_hand(self, kind: PlatformKind) -> Collateral | None:
            return self.found if kind.tee is Tee.SGX else None

        async def collateral_of(self, kind: PlatformKind) -> Collateral:
            found = await super().collateral_of(kind)
            if len(self.asked) == FETCHES_AT_ONCE:
                all_ask.set()
            await answered.wait()
            return found

    async def verify(client: bytes) -> None:
        try:
            await checks.verify(quote("tdx_quote"), client)
        finally:
            ended.append(client.decode())

    ended = list[str]()
    checks = QuoteChecks(INTEL_SGX_ROOT, Slow(collateral("sgx_quote")), lambda: AT)
    try:
        callers = [asyncio.create_task(verify(b"greedy")) for _ in range(100)]
        await all_ask.wait()
        callers.append(asyncio.create_task(verify(b"modest")))
        await checks.verify(quote("sgx_quote"))
        answered.set()
        answers = await asyncio.gather(*callers, return_exceptions=True)
        assert {type(each) for each in answers} == {QuoteRefusedError}
        assert ended.index("modest") < 2 * FETCHES_AT_ONCE
    finally:
        checks.close()
