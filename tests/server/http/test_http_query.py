"""Query strings that anybody may send: bounded before they are taken apart."""

import pytest

from keyhouse.base.errors import BadRequestError
from keyhouse.server.http.head import MOST_ESCAPES
from keyhouse.server.http.query import MOST, short_values, values


def test_values_come_in_order_and_malformed_pairs_are_dropped() -> None:
    query = b"&a=1&&a=%32&b=3&a=%zz&a=4;&a=%ff&%61=5+6&"
    assert values(query, "a") == short_values(query, "a") == ["1", "2", "5 6"]


@pytest.mark.parametrize(
    "query",
    [
        b"&" * (MOST - 1) + b"a=1",
        b"a=1&b=" + b"%41" * MOST_ESCAPES,
        b"a=1&b=" + b"x" * 16_000,
    ],
    ids=["parameters", "escapes", "bytes"],
)
def test_query_at_its_limits_is_read(query: bytes) -> None:
    assert short_values(query, "a") == ["1"]


@pytest.mark.parametrize(
    "query",
    [b"&" * MOST + b"a=1", b"&" * 16_000, b"a=" + b"%41" * (MOST_ESCAPES + 1)],
    ids=["parameters", "only separators", "escapes"],
)
def test_query_beyond_its_limits_is_refused_before_it_is_taken_apart(query: bytes) -> None:
    with pytest.raises(BadRequestError) as caught:
        short_values(query, "a")
    assert list(caught.value.fields) == ["query"]
    assert caught.value.hint


def test_a_user_may_name_as_many_secrets_as_fit_the_request_line() -> None:
    assert len(values(b"&".join([b"s=x"] * 4000), "s")) == 4000
