import msgspec
import pytest
from benchmarks.figures import BARE, Scenario, Series, compare
from benchmarks.loading import Latency, LoadReport, ServerCpu

READ = Scenario("read", "read", with_bare=True, wanted_of_bare=0.7)
UPLOAD = Scenario("upload", "upload", with_bare=False, slow=True, wanted=800)


def run(rate: float, p50: float = 100.0, cpu: float | None = None) -> LoadReport:
    return LoadReport(
        requests=1000,
        errors=0,
        statuses={"200": 1000},
        failures={},
        seconds=1.0,
        requests_per_second=rate,
        latency_us=Latency(p50, p50, p50, p50),
        load_cpu_share=0.5,
        server_cpu=None if cpu is None else ServerCpu(1.0, cpu, 0.1),
    )


def test_ratio_is_formed_within_each_round_so_that_a_slow_moment_hits_both() -> None:
    bare = Series("read", BARE, [run(1000), run(200), run(900)])
    small = Series("read", "100", [run(800), run(160), run(720)])
    large = Series("read", "10000", [run(600), run(120), run(540)])
    found = compare(READ, [bare, small, large])
    assert found.of_bare == {100: pytest.approx(0.8), 10_000: pytest.approx(0.6)}
    assert found.large_of_small == pytest.approx(0.75)
    assert found.figures == {100: 720, 10_000: 540}
    assert found.findings == ["missed: 70% of bare", "missed: 10,000 within 20 % of 100"]


def test_slow_rows_are_judged_by_latency_and_ratios_stay_ratios_of_speed() -> None:
    small = Series("upload", "100", [run(1, p50=500)])
    large = Series("upload", "10000", [run(1, p50=625)])
    found = compare(UPLOAD, [small, large])
    assert found.figures == {100: 500, 10_000: 625}
    assert found.large_of_small == pytest.approx(0.8)
    assert found.findings == ["met: at most 800 µs", "met: 10,000 within 20 % of 100"]


def test_processor_time_is_compared_with_that_of_the_bare_server() -> None:
    series = [
        Series("read", BARE, [run(1, cpu=20)]),
        Series("read", "100", [run(1, cpu=25)]),
        Series("read", "10000", [run(1, cpu=40)]),
    ]
    assert compare(READ, series).cpu_of_bare == {100: pytest.approx(0.8), 10_000: 0.5}


def test_nothing_answered_gives_a_ratio_of_nothing_and_no_error() -> None:
    silent = msgspec.structs.replace(run(0, p50=0), errors=1000)
    series = [Series("upload", "100", [silent]), Series("upload", "10000", [silent])]
    found = compare(UPLOAD, series)
    assert found.large_of_small == 0
