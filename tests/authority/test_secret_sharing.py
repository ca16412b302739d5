"""Splitting and combining of secrets: XOR and Shamir."""

import contextlib
import itertools

import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.authority.recovery.shares import combine_shamir, combine_xor, split_shamir, split_xor
from keyhouse.base.errors import BrokenError
from keyhouse.base.secret import Secret

SECRET = bytes(range(32))
# Vector of the interface, with threshold 2; verified by two implementations.
VECTOR = tuple(
    Secret(bytes.fromhex(text))
    for text in (
        "ea2a04375eba8977aa3725e9e445eef44a5eac8cca44323bdcd7f27954318aec8e",
        "d6274488c4bcb909d748a1dc11041233d0b643ae49f79f9f8d4607dc1595812257",
        "d5481395b4c74c741aac5de2d6cae828a04d5a21571cf8c51022c01fdbcf9504c0",
    )
)
secrets_ = st.binary(min_size=1, max_size=40)


def _slow_product(a: int, b: int) -> int:
    """Return the product in GF(2^8) by the plain method: multiply, then divide by 0x11B."""
    product = 0
    for bit in range(8):
        if b >> bit & 1:
            product ^= a << bit
    for bit in range(14, 7, -1):
        if product >> bit & 1:
            product ^= 0x11B << (bit - 8)
    return product


@pytest.mark.parametrize("chosen", list(itertools.permutations(VECTOR, 2)))
def test_any_two_shares_of_the_vector_give_the_secret(chosen: tuple[Secret, Secret]) -> None:
    assert combine_shamir(chosen).reveal() == SECRET


def test_all_three_shares_of_the_vector_give_the_secret() -> None:
    assert combine_shamir(VECTOR).reveal() == SECRET


@settings(max_examples=60, deadline=None)
@given(data=st.data(), secret=secrets_, shares=st.integers(2, 12))
def test_any_threshold_of_shares_recovers(data: st.DataObject, secret: bytes, shares: int) -> None:
    threshold = data.draw(st.integers(2, shares))
    made = split_shamir(Secret(secret), shares=shares, threshold=threshold)
    count = data.draw(st.integers(threshold, shares))
    chosen = data.draw(st.permutations(made))[:count]
    assert combine_shamir(chosen).reveal() == secret


@settings(max_examples=25, deadline=None)
@given(secret=secrets_, threshold=st.integers(2, 6))
def test_one_share_less_leaves_every_byte_possible(secret: bytes, threshold: int) -> None:
    shares = split_shamir(Secret(secret), shares=threshold, threshold=threshold)
    known = [share.reveal() for share in shares[:-1]]
    x = shares[-1].reveal()[-1]
    # Each value of the missing share leads to a different secret, so all 256 secrets stay possible.
    candidates = {
        combine_shamir(
            [*(Secret(share[:1] + share[-1:]) for share in known), Secret(bytes([guess, x]))]
        ).reveal()
        for guess in range(256)
    }
    assert len(candidates) == 256


@settings(max_examples=25, deadline=None)
@given(secret=secrets_)
def test_shares_are_points_of_polynomials_of_the_documented_field(secret: bytes) -> None:
    first, second = (
        share.reveal() for share in split_shamir(Secret(secret), shares=2, threshold=2)
    )
    assert len(first) == len(secret) + 1
    for position, byte in enumerate(secret):
        slopes = {
            slope
            for slope in range(256)
            if first[position] == byte ^ _slow_product(slope, first[-1])
        }
        # Exactly one line contains the secret at 0 and the first share.
        # The second share is on this line.
        (slope,) = slopes
        assert second[position] == byte ^ _slow_product(slope, second[-1])


def test_points_are_distinct_and_never_zero() -> None:
    shares = split_shamir(Secret(SECRET), shares=255, threshold=3)
    assert sorted(share.reveal()[-1] for share in shares) == list(range(1, 256))
    assert combine_shamir(shares[100:103]).reveal() == SECRET


def test_the_largest_scheme_recovers() -> None:
    shares = split_shamir(Secret(SECRET), shares=255, threshold=254)
    assert combine_shamir(shares[1:]).reveal() == SECRET
    assert combine_shamir(shares[2:]).reveal() != SECRET


@pytest.mark.parametrize(("shares", "threshold"), [(3, 1), (3, 4), (256, 3), (0, 0), (2, -1)])
def test_impossible_schemes_are_refused(shares: int, threshold: int) -> None:
    with pytest.raises(BrokenError):
        split_shamir(Secret(SECRET), shares=shares, threshold=threshold)


@pytest.mark.parametrize(
    "shares",
    [
        (),
        VECTOR[:1],
        (VECTOR[0], VECTOR[0]),
        (VECTOR[0], Secret(bytes(32) + VECTOR[0].reveal()[-1:])),
        (VECTOR[0], Secret(bytes(33))),
        (VECTOR[0], Secret(b"short")),
        (Secret(b"\x01"), Secret(b"\x02")),
        (Secret(b""), Secret(b"")),
    ],
    ids=["none", "one", "twice", "same x", "x is 0", "lengths", "only x", "empty"],
)
def test_shares_that_cannot_belong_together_are_refused(shares: tuple[Secret, ...]) -> None:
    with pytest.raises(BrokenError):
        combine_shamir(shares)


@settings(max_examples=50, deadline=None)
@given(shares=st.lists(st.binary(max_size=40).map(Secret), max_size=6))
def test_arbitrary_shares_give_a_secret_or_our_refusal(shares: list[Secret]) -> None:
    for combine in (combine_shamir, combine_xor):
        with contextlib.suppress(BrokenError):
            assert isinstance(combine(shares), Secret)


@settings(max_examples=50, deadline=None)
@given(secret=secrets_, count=st.integers(1, 20))
def test_xor_needs_all_shares_in_any_order(secret: bytes, count: int) -> None:
    shares = split_xor(Secret(secret), count)
    assert len(shares) == count
    assert {len(share) for share in shares} == {len(secret)}
    if len(set(map(Secret.reveal, shares))) == count:  # short shares can be equal by chance
        assert combine_xor(shares[::-1]).reveal() == secret
    if count > 1 and len(secret) >= 16:
        assert combine_xor(shares[:-1]).reveal() != secret


def test_a_single_xor_share_is_the_secret() -> None:
    assert [share.reveal() for share in split_xor(Secret(SECRET), 1)] == [SECRET]
    with pytest.raises(BrokenError):
        split_xor(Secret(SECRET), 0)


def test_xor_share_given_twice_is_refused() -> None:
    share = Secret(SECRET)
    with pytest.raises(BrokenError, match="given twice"):
        combine_xor([share, share])
