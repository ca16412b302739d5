"""Counting requests: everything is counted, and no anonymous client makes a label."""

from collections.abc import Sequence

from hypothesis import given, settings, strategies as st

from keyhouse.server.client_api import ROUTES
from keyhouse.server.http.counts import METHODS, SECONDS, SIZES, UNKNOWN, RequestCounts

PATHS = sorted({route.path for route in ROUTES})

_paths = st.sampled_from(PATHS) | st.text() | st.sampled_from(["/api/v2/status/", "unknown", ""])
_methods = st.sampled_from(sorted(METHODS)) | st.text() | st.sampled_from(["get", "Post", UNKNOWN])
_requests = st.lists(st.tuples(_paths, _methods, st.integers(0, 999)), max_size=50)


def counted(requests: Sequence[tuple[str, str, int]]) -> RequestCounts:
    counts = RequestCounts(PATHS)
    for path, method, status in requests:
        counts.answered(path, method, status, 0.01, 100, 200)
    return counts


@given(_requests)
@settings(max_examples=200)
def test_labels_are_routes_methods_and_statuses_whatever_is_asked(
    requests: list[tuple[str, str, int]],
) -> None:
    counts = counted(requests)

    for path, code, method in counts.answers():
        assert path in {*PATHS, UNKNOWN}
        assert method in {*(name.lower() for name in METHODS), UNKNOWN}
        assert 100 <= int(code) <= 511


@given(_requests)
@settings(max_examples=100)
def test_every_answer_is_counted_once_in_each_metric(requests: list[tuple[str, str, int]]) -> None:
    counts = counted(requests)

    assert sum(counts.answers().values()) == len(requests)
    assert sum(sum(one.counts) for one in counts.durations().values()) == len(requests)
    assert sum(one.total for one in counts.request_sizes().values()) == 100 * len(requests)
    assert sum(one.total for one in counts.response_sizes().values()) == 200 * len(requests)


def test_ten_thousand_hostile_requests_make_few_series() -> None:
    hostile = [(f"/{number}", f"M{number}", 405) for number in range(10_000)]

    assert counted(hostile).answers() == {(UNKNOWN, "405", UNKNOWN): 10_000}


def test_path_of_a_route_keeps_its_name_under_every_method() -> None:
    counts = counted([("/api/v2/status", "PUT", 405), ("/api/v2/status", "GET", 200)])

    assert counts.answers() == {
        ("/api/v2/status", "405", "put"): 1,
        ("/api/v2/status", "200", "get"): 1,
    }


def test_durations_of_all_statuses_of_a_path_and_method_come_together() -> None:
    counts = RequestCounts(PATHS)
    for status, seconds in ((200, 0.004), (401, 0.005), (503, 0.2), (500, 60.0)):
        counts.answered("/api/v2/secrets", "GET", status, seconds, 1, 1)

    (tally,) = counts.durations().values()

    assert list(tally.cumulative()) == [
        *zip(SECONDS, (2, 2, 2, 3, 3, 3, 3), strict=True),
        (float("inf"), 4),
    ]
    assert tally.total == 60.209


def test_sizes_fall_into_the_bucket_of_the_next_bound() -> None:
    counts = RequestCounts(PATHS)
    for size in (0, 100, 101, 10_000, 10_001):
        counts.answered("/status", "GET", 200, 0.0, size, 0)

    (tally,) = counts.request_sizes().values()

    assert list(tally.bounds) == list(SIZES)
    assert tally.counts == [2, 1, 0, 0, 1, 1]


def test_what_never_became_a_request_has_no_duration() -> None:
    counts = RequestCounts(PATHS)
    counts.refused(400)

    assert counts.answers() == {(UNKNOWN, "400", UNKNOWN): 1}
    assert len(counts.durations()) == 0
    assert len(counts.request_sizes()) == 0
