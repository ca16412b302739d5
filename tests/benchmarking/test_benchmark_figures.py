import msgspec
import pytest
from benchmarks.figures import BARE, LARGE, SHORT, SMALL, WRITTEN, Scenario, Series, compare
from benchmarks.load_report import Latency, LoadReport, ServerCpu

READ = Scenario("read", "read", (BARE, SMALL, LARGE), wanted_of_bare=0.7)
UPLOAD = Scenario("upload", "upload", (SMALL, LARGE), slow="p50", wanted=800)


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
    small = Series("read", SMALL, [run(800), run(160), run(720)])
    large = Series("read", LARGE, [run(600), run(120), run(540)])
    found = compare(READ, [bare, small, large])
    assert found.of_bare == {SMALL: pytest.approx(0.8), LARGE: pytest.approx(0.6)}
    assert found.of_small == {LARGE: pytest.approx(0.75)}
    assert found.figures == {BARE: 900, SMALL: 720, LARGE: 540}
    assert found.findings == ["missed: 70% of bare", "missed: 10,000 within 20 % of 100"]


def test_slow_rows_are_judged_by_latency_and_ratios_stay_ratios_of_speed() -> None:
    small = Series("upload", SMALL, [run(1, p50=500)])
    large = Series("upload", LARGE, [run(1, p50=625)])
    found = compare(UPLOAD, [small, large])
    assert found.figures == {SMALL: 500, LARGE: 625}
    assert found.of_small == {LARGE: pytest.approx(0.8)}
    assert found.findings == ["met: at most 800 µs", "met: 10,000 within 20 % of 100"]


def test_processor_time_is_compared_with_that_of_the_bare_server() -> None:
    series = [
        Series("read", BARE, [run(1, cpu=20)]),
        Series("read", SMALL, [run(1, cpu=25)]),
        Series("read", LARGE, [run(1, cpu=40)]),
    ]
    assert compare(READ, series).cpu_of_bare == {SMALL: pytest.approx(0.8), LARGE: 0.5}


def test_nothing_answered_gives_a_ratio_of_nothing_and_no_error() -> None:
    silent = msgspec.structs.replace(run(0, p50=0), errors=1000)
    series = [Series("upload", SMALL, [silent]), Series("upload", LARGE, [silent])]
    found = compare(UPLOAD, series)
    assert found.of_small == {LARGE: 0}


def test_each_row_is_judged_by_its_own_percentile_and_servers() -> None:
    beside = Scenario("beside", "beside", (SMALL, WRITTEN), slow="p99", wanted=5000)

    def late(p99: float) -> LoadReport:
        return msgspec.structs.replace(run(1), latency_us=Latency(1, 1, p99, p99))

    series = [Series("beside", SMALL, [late(3000)]), Series("beside", WRITTEN, [late(6000)])]
    found = compare(beside, series)
    assert found.figures == {SMALL: 3000, WRITTEN: 6000}
    assert found.findings == ["missed: at most 5,000 µs", "missed: written within 20 % of 100"]


def test_a_rate_can_have_a_latency_beside_it_and_another_small_server() -> None:
    join = Scenario("join", "join", ("few", "many"), wanted=100, wanted_p99=5000, small="few")
    late = msgspec.structs.replace(run(90), latency_us=Latency(1, 1, 6000, 9000))
    found = compare(join, [Series("join", "few", [run(200)]), Series("join", "many", [late])])
    assert found.of_small == {"many": pytest.approx(0.45)}
    assert found.findings == [
        "missed: at least 100/s",
        "missed: many within 20 % of few",
        "missed: p99 at most 5,000 µs",
    ]


def test_server_that_has_no_small_one_beside_it_is_compared_with_the_bare_one_only() -> None:
    manifest = Scenario("manifest", "manifest", (BARE, SHORT), wanted_of_bare=0.7)
    series = [Series("manifest", BARE, [run(100)]), Series("manifest", SHORT, [run(90)])]
    found = compare(manifest, series)
    assert found.of_bare == {SHORT: pytest.approx(0.9)}
    assert not found.of_small
    assert found.findings == ["met: 70% of bare"]
