"""Times in a readable form."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from keyhouse.coordinator.core.update_log import timestamp

_YEAR_2500 = int(datetime(2500, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


@given(st.integers(0, _YEAR_2500))
def test_timestamp_is_the_moment_cut_to_the_millisecond(time: int) -> None:
    shown = timestamp(time)
    assert shown[-5] == "."
    assert shown.endswith("Z")
    read = datetime.fromisoformat(shown)
    cut = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time // 1000 * 1000)
    assert read == cut
