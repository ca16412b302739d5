"""What frames cost, however their bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from keyhouse.server.grpc.http2 import FrameMeter

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int = 0, length: int = 0) -> bytes:
    return length.to_bytes(3, "big") + bytes([kind, flags]) + bytes(4 + length)


def price(*frames: bytes) -> int:
    """Return the smallest allowance with which ``frames`` are fine."""
    data = PREFACE + b"".join(frames)
    return next(most for most in range(1000) if FrameMeter(1000, most).feed(data))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (frame(0, length=16_384), 0),
        (frame(0, flags=1), 0),
        (frame(0), 1),
        (frame(0, length=511), 1),
        (frame(1, flags=4, length=100), 2),
        (frame(4, length=36), 16),
        (frame(4, flags=1), 1),
        *[(frame(kind), 1) for kind in (2, 3, 5, 6, 7, 8, 10, 200)],
    ],
)
def test_frame_has_its_price(sent: bytes, expected: int) -> None:
    assert price(sent) == expected
    assert price(sent, sent) == 2 * expected


@pytest.mark.parametrize(
    "sent",
    [
        frame(1, length=1001),
        frame(1, length=600) + frame(9, length=600),
        frame(4, length=33 * 6),
    ],
    ids=["headers", "continuation", "settings"],
)
def test_frame_that_is_too_long_is_never_fine(sent: bytes) -> None:
    assert not FrameMeter(1000, 10**9).feed(PREFACE + sent)


def test_block_of_headers_ends_where_it_says() -> None:
    sent = (frame(1, length=600) + frame(9, flags=4, length=400)) * 20

    assert FrameMeter(1000, 10**9).feed(PREFACE + sent)


def test_answers_fill_the_allowance_up_and_not_more() -> None:
    meter = FrameMeter(1000, 10)
    assert meter.feed(PREFACE + frame(6) * 10)
    meter.allow(1000)
    assert meter.feed(frame(6) * 10)
    assert not meter.feed(frame(6))


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 255), st.integers(0, 2000))),
    st.sets(st.integers(0, 10_000)),
)
def test_price_is_the_same_however_the_bytes_are_cut(
    frames: list[tuple[int, int, int]], cuts: set[int]
) -> None:
    data = PREFACE + b"".join(frame(*each) for each in frames)
    whole, cut = FrameMeter(1000, 40), FrameMeter(1000, 40)
    ends = sorted({0, len(data), *(at for at in cuts if at < len(data))})

    assert whole.feed(data) == all(cut.feed(data[a:b]) for a, b in pairwise(ends))
