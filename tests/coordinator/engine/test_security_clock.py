"""The time of a process: bounded by known times, and advanced by the process's own measurement."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from support.captured_log import capture_logs
from support.samples.deployment import (
    NOW,
    FixedClock,
    manifest,
    open_storage,
    running_engine,
    set_manifest,
    upload,
)

from keyhouse.base.errors import BrokenError, UnavailableError
from keyhouse.base.version import BUILD_TIME
from keyhouse.coordinator.engine.clock import CLOCK_EVERY, HostClock, SecurityClock
from keyhouse.journal import Fresh, Opened

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND
YEAR = 365 * DAY
TWELVE_YEARS = 12 * YEAR


def test_time_of_a_clock_within_the_bound_is_the_hosts() -> None:
    host = FixedClock()
    clock = SecurityClock(host)
    for time in (NOW, NOW + 30 * DAY, NOW - 10 * DAY, BUILD_TIME + YEAR):
        host.time = time
        assert clock.now() == time
        assert clock.is_followed


def test_clock_that_jumps_is_not_followed_and_time_continues_from_where_it_was() -> None:
    host = FixedClock()
    clock = SecurityClock(host)
    clock.now()
    host.let_pass(3 * SECOND)
    host.time += TWELVE_YEARS
    with capture_logs() as told:
        assert clock.now() == NOW + 3 * SECOND
        assert [clock.is_followed, clock.jumps] == [False, 1]
        host.let_pass(DAY)
        assert clock.now() == NOW + 3 * SECOND + DAY
        host.time -= TWELVE_YEARS
        assert clock.now() == NOW + 3 * SECOND + DAY
    assert [clock.is_followed, clock.jumps] == [True, 1]
    assert [(entry["event"].partition(": ")[2], entry["days_ahead"]) for entry in told] == [
        ("it is not followed", 12 * 365),
        ("", 0),
    ]


def test_many_jumps_lead_no_further_than_one() -> None:
    host = FixedClock()
    clock = SecurityClock(host, NOW)
    for _ in range(13):
        host.time += 364 * DAY
        assert clock.now() <= NOW + YEAR
    assert clock.jumps == 1


async def test_what_a_process_journals_does_not_move_the_bound(tmp_path: Path) -> None:
    clock = FixedClock()
    async with running_engine(tmp_path / "data", clock) as engine:
        await set_manifest(engine, manifest())
        for _ in range(13):
            clock.time += 364 * DAY
            await upload(engine, {"key0": bytes(16)})
        assert engine.view.running.time <= BUILD_TIME + YEAR
    with pytest.raises(BrokenError, match="journalled time"):
        async with running_engine(tmp_path / "data", clock):
            pytest.fail("it must not start")


async def test_years_that_a_process_has_run_are_followed(tmp_path: Path) -> None:
    clock = FixedClock()
    async with running_engine(tmp_path / "data", clock) as engine:
        await set_manifest(engine, manifest())
        clock.let_pass(TWELVE_YEARS)
        assert engine.current.now() == clock.time
        clock.time += YEAR  # a later jump does not count more than before
        assert engine.current.now() < clock.time
        clock.time -= YEAR
        await upload(engine, {"key0": bytes(16)})
    async with running_engine(tmp_path / "data", clock) as engine:
        assert engine.current.now() == clock.time


async def test_jump_while_it_runs_is_not_journalled(tmp_path: Path) -> None:
    clock = FixedClock()
    async with running_engine(tmp_path / "data", clock) as engine:
        await set_manifest(engine, manifest())
        clock.time += TWELVE_YEARS
        await upload(engine, {"key0": bytes(16)})
        assert engine.view.running.time == NOW
        clock.time = NOW + DAY
        await upload(engine, {"key0": bytes(16)})
        assert engine.view.running.time == NOW + DAY
    async with running_engine(tmp_path / "data", clock) as engine:
        assert engine.current.now() == NOW + DAY


async def test_fresh_directory_is_bounded_by_the_build(tmp_path: Path) -> None:
    clock = FixedClock(BUILD_TIME + YEAR + 1)
    with pytest.raises(BrokenError, match="this version of Keyhouse") as refused:
        async with running_engine(tmp_path / "data", clock):
            pytest.fail("it must not start")
    assert "--confirm-clock" in refused.value.hint
    clock.time -= 1
    async with running_engine(tmp_path / "again", clock) as engine:
        assert engine.current.now() == BUILD_TIME + YEAR


async def test_first_manifest_waits_until_the_clock_is_right(tmp_path: Path) -> None:
    clock = FixedClock()
    async with running_engine(tmp_path / "data", clock) as engine:
        clock.time += TWELVE_YEARS
        with pytest.raises(UnavailableError, match="--confirm-clock"):
            engine.current.clock.require_near()
        clock.time = NOW
        engine.current.clock.require_near()


async def test_tombstone_has_the_time_of_the_journal(tmp_path: Path) -> None:
    clock = FixedClock()
    async with running_engine(tmp_path / "data", clock) as engine:
        await set_manifest(engine, manifest())
    storage = await open_storage(tmp_path / "data")
    assert isinstance(await storage.load(), Opened)
    await storage.destroy(engine.view.running.time)
    ended = await storage.load()
    await storage.close()
    assert isinstance(ended, Fresh)
    assert ended.ended is not None
    assert ended.ended.time == NOW


@given(st.lists(st.integers(-(2**62), 2**62), max_size=20))
def test_no_clock_leads_more_than_a_year_from_what_is_known(times: list[int]) -> None:
    host = FixedClock()
    clock = SecurityClock(host, NOW)
    for time in times:
        host.time = time
        host.passed += SECOND
        assert NOW <= clock.now() <= NOW + YEAR + host.passed


class Monotonic:
    """Nanoseconds that a test sets."""

    def __init__(self) -> None:
        self.value = 10**18

    def __call__(self) -> int:
        return self.value


def test_monotonic_clock_counts_no_jump_of_its_own() -> None:
    monotonic = Monotonic()
    host = HostClock(monotonic)
    for _ in range(48):  # as often as a running process reads the clock
        monotonic.value += CLOCK_EVERY * 10**9
        host.elapsed()
    assert host.elapsed() == 2 * DAY
    monotonic.value += 12 * 365 * 86400 * 10**9  # a monotonic clock with the jumps of a wall clock
    assert host.elapsed() == 2 * DAY + 2 * CLOCK_EVERY * SECOND
    monotonic.value -= 12 * 365 * 86400 * 10**9
    assert host.elapsed() == 2 * DAY + 2 * CLOCK_EVERY * SECOND
    monotonic.value += 10**9
    assert host.elapsed() == 2 * DAY + 2 * CLOCK_EVERY * SECOND + SECOND


def test_hosts_clock_tells_the_time_of_day() -> None:
    before = datetime.now(UTC)
    told = datetime.fromtimestamp(HostClock().now() / SECOND, UTC)
    assert before - timedelta(seconds=1) <= told <= datetime.now(UTC) + timedelta(seconds=1)
