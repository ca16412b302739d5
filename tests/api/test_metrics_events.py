"""The events of a process."""

import json

from hypothesis import given
from hypothesis import strategies as st

from keyhouse.api.events import MOST, Activation, Events, rfc3339


def test_no_events_are_an_empty_array() -> None:
    assert json.loads(Events().as_json()) == []


def test_event_has_the_shape_of_the_interface() -> None:
    events = Events()
    events.activated(
        Activation(marble_type="front end", uuid="5c9e", quote=b"\x00quote"),
        at=1_800_000_000 * 10**9 + 1,
    )
    events.activated(Activation(marble_type="plain", uuid="77"), at=0)

    assert json.loads(events.as_json()) == [
        {
            "time": "2027-01-15T08:00:00.000000001Z",
            "activation": {"marbleType": "front end", "uuid": "5c9e", "quote": "AHF1b3Rl"},
        },
        {
            "time": "1970-01-01T00:00:00.000000000Z",
            "activation": {"marbleType": "plain", "uuid": "77", "quote": None},
        },
    ]


def test_only_the_newest_events_are_kept() -> None:
    events = Events()
    for number in range(MOST + 5):
        events.activated(Activation(marble_type="web", uuid=str(number)), at=number)

    kept = json.loads(events.as_json())

    assert len(kept) == MOST
    assert kept[0]["activation"]["uuid"] == "5"
    assert kept[-1]["activation"]["uuid"] == str(MOST + 4)


@given(st.integers(0, 4 * 10**18))
def test_time_has_nine_digits_and_sorts_as_text(nanoseconds: int) -> None:
    text = rfc3339(nanoseconds)

    assert text[-11] == "."
    assert int(text[-10:-1]) == nanoseconds % 10**9
    assert text <= rfc3339(nanoseconds + 1)
