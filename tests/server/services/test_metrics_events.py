"""The events of a process."""

import json

from hypothesis import given, strategies as st

from keyhouse.server.services.events import (
    LONGEST_REASON,
    MOST,
    MOST_BYTES,
    MOST_REFUSALS,
    MOST_RENEWALS,
    ActivationEvent,
    Events,
    RefusalEvent,
    RenewalEvent,
    rfc3339,
)


def test_no_events_are_an_empty_array() -> None:
    assert json.loads(Events().as_json()) == []


def test_event_has_the_shape_of_the_interface() -> None:
    events = Events()
    events.activated(
        ActivationEvent(marble_type="front end", uuid="5c9e", quote=b"\x00quote"),
        at=1_800_000_000 * 10**9 + 1,
    )
    events.activated(ActivationEvent(marble_type="plain", uuid="77"), at=0)

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
        events.activated(ActivationEvent(marble_type="web", uuid=str(number)), at=number)

    kept = json.loads(events.as_json())

    assert len(kept) == MOST
    assert kept[0]["activation"]["uuid"] == "5"
    assert kept[-1]["activation"]["uuid"] == str(MOST + 4)


def test_events_with_long_quotes_are_bounded_in_bytes() -> None:
    events, quote, each = Events(), bytes(65_536), 65_536 * 4 // 3
    for number in range(MOST_BYTES // each + 5):
        events.activated(ActivationEvent("web", str(number), quote), at=number)

    text = events.as_json()
    kept = json.loads(text)

    assert len(text) <= MOST_BYTES + len(kept) + 2  # commas, brackets
    assert MOST_BYTES // each - 2 <= len(kept) <= MOST_BYTES // each
    assert kept[-1]["activation"]["uuid"] == str(MOST_BYTES // each + 4)

    for number in range(MOST):  # small ones have all their room again
        events.activated(ActivationEvent("web", str(number)), at=number)
    assert len(json.loads(events.as_json())) == MOST


def test_all_who_ask_between_two_events_hold_one_text() -> None:
    events = Events()
    events.activated(ActivationEvent("web", "1"), at=0)
    text = events.as_json()

    assert events.as_json() is text

    events.refused(RefusalEvent("web", "2", "invalid", "x"), at=1)
    assert len(json.loads(events.as_json())) == 2


def test_refusals_stand_among_the_activations_in_the_order_of_their_happening() -> None:
    events = Events()
    events.activated(ActivationEvent("web", "1"), at=0)
    events.refused(RefusalEvent("wbe", "2", "forbidden", 'no marble type "wbe"'), at=1)
    events.activated(ActivationEvent("web", "3"), at=0)  # began earlier, ended later

    assert json.loads(events.as_json())[1:] == [
        {
            "time": "1970-01-01T00:00:00.000000001Z",
            "refusal": {
                "marbleType": "wbe",
                "uuid": "2",
                "code": "forbidden",
                "reason": 'no marble type "wbe"',
            },
        },
        {
            "time": "1970-01-01T00:00:00.000000000Z",
            "activation": {"marbleType": "web", "uuid": "3", "quote": None},
        },
    ]


def test_refusals_push_no_activation_out_and_are_bounded_themselves() -> None:
    events = Events()
    events.activated(ActivationEvent("web", "first"), at=0)
    for number in range(MOST + MOST_REFUSALS):
        events.refused(RefusalEvent("web", str(number), "invalid", "x" * 100_000), at=number)

    first, *refusals = json.loads(events.as_json())

    assert first["activation"]["uuid"] == "first"
    assert [refusal["refusal"]["uuid"] for refusal in refusals] == [
        str(number) for number in range(MOST, MOST + MOST_REFUSALS)
    ]
    assert refusals[0]["refusal"]["reason"] == "x" * LONGEST_REASON + "..."


def test_renewals_have_a_ring_of_their_own() -> None:
    """Review of living workloads, M17: frequent renewals displace no activation."""
    events = Events()
    events.activated(ActivationEvent(marble_type="web", uuid="first"), at=0)
    for number in range(MOST_RENEWALS + 1):
        events.renewed(RenewalEvent("web", str(number), "ab", "UpToDate"), at=number + 1)

    first, *rest = json.loads(events.as_json())
    assert first["activation"]["uuid"] == "first"
    assert len(rest) == MOST_RENEWALS
    assert rest[0] == {
        "time": "1970-01-01T00:00:00.000000002Z",
        "renewal": {"marbleType": "web", "uuid": "1", "platform": "ab", "tcbStatus": "UpToDate"},
    }


@given(st.integers(0, 4 * 10**18))
def test_time_has_nine_digits_and_sorts_as_text(nanoseconds: int) -> None:
    text = rfc3339(nanoseconds)

    assert text[-11] == "."
    assert int(text[-10:-1]) == nanoseconds % 10**9
    assert text <= rfc3339(nanoseconds + 1)
