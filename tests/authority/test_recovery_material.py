"""Shares of the data key, encrypted for their holders."""

import hashlib
import itertools
from functools import cache

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.samples.fixed_keys import unused_rsa_key

from keyhouse.authority import RecoveryMaterial, make_recovery
from keyhouse.authority.recovery.shares import combine_shamir, combine_xor, recovery_key_problems
from keyhouse.base.errors import BrokenError, InvalidError
from keyhouse.base.secret import Secret

DATA_KEY = Secret(bytes(range(100, 132)))
OAEP = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
NAMES = ("zoe", "alice", "bob", "carol")


@cache
def _key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    assert name
    return unused_rsa_key(bits)


def _spki(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _huge(bits: int = 16392) -> bytes:
    numbers = rsa.RSAPublicNumbers(65537, (1 << (bits - 1)) + 1)
    return numbers.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _keys(count: int) -> dict[str, bytes]:
    return {name: _spki(_key(name)) for name in NAMES[:count]}


def _opened(material: RecoveryMaterial) -> list[Secret]:
    return [
        Secret(_key(holder.name).decrypt(holder.ciphertext, OAEP)) for holder in material.holders
    ]


def test_without_keys_nothing_is_made() -> None:
    assert make_recovery(DATA_KEY, {}, 0) == RecoveryMaterial((), 0, 0)


def test_a_single_holder_gets_the_data_key_itself() -> None:
    material = make_recovery(DATA_KEY, _keys(1), 0)
    assert _opened(material) == [DATA_KEY]
    assert material.effective_threshold == 1


@pytest.mark.parametrize(("count", "threshold"), [(2, 0), (2, 2), (3, 0), (3, 3)])
def test_all_xor_shares_together_give_the_data_key(count: int, threshold: int) -> None:
    material = make_recovery(DATA_KEY, _keys(count), threshold)
    shares = _opened(material)
    assert {len(share) for share in shares} == {32}
    assert combine_xor(shares) == DATA_KEY
    assert combine_xor(shares[1:]) != DATA_KEY
    assert (material.threshold, material.effective_threshold) == (threshold, count)


@pytest.mark.parametrize(("count", "threshold"), [(3, 2), (4, 2), (4, 3)])
def test_any_threshold_of_shamir_shares_gives_the_data_key(count: int, threshold: int) -> None:
    material = make_recovery(DATA_KEY, _keys(count), threshold)
    shares = _opened(material)
    assert {len(share) for share in shares} == {33}
    for chosen in itertools.combinations(shares, threshold):
        assert combine_shamir(chosen) == DATA_KEY
    assert material.effective_threshold == threshold


def test_holders_are_sorted_and_hashes_are_those_of_the_shares() -> None:
    material = make_recovery(DATA_KEY, _keys(4), 0)
    assert [holder.name for holder in material.holders] == sorted(NAMES)
    assert list(material.ciphertexts) == sorted(NAMES)
    for holder, share in zip(material.holders, _opened(material), strict=True):
        assert holder.share_hash == hashlib.sha256(share.reveal()).digest()
        assert holder.public_key == _spki(_key(holder.name))
        assert material.ciphertexts[holder.name] == holder.ciphertext


def test_no_plain_share_is_left_in_the_material() -> None:
    material = make_recovery(DATA_KEY, _keys(1), 0)
    assert DATA_KEY.reveal() not in msgspec.msgpack.encode(material)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (b"", "is not a public key"),
        (b"garbage", "is not a public key"),
        (_spki(ec.generate_private_key(ec.SECP256R1())), "is not an RSA key"),
        (_spki(_key("small", 1024)), "too small"),
        (
            _key("zoe").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            "is not a public key",
        ),
        (_spki(_key("zoe")) + b"\0", "is not a public key"),
        (_huge(), "too large"),
    ],
    ids=["empty", "garbage", "EC", "1024 bits", "PEM", "trailing byte", "16392 bits"],
)
def test_unusable_key_is_refused_by_name(key: bytes, words: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        make_recovery(DATA_KEY, {"alice": _spki(_key("alice")), "my key": key}, 0)
    (problem,) = refusal.value.problems
    assert problem.at == 'RecoveryKeys["my key"]'
    assert words in problem.problem
    assert "RSA key" in problem.hint


def test_keys_of_the_least_and_the_greatest_size_can_be_used() -> None:
    keys = {"least": _spki(_key("zoe")), "greatest": _huge(16384)}
    assert recovery_key_problems(keys, 0) == ()


@pytest.mark.parametrize(
    ("count", "threshold"), [(0, 1), (0, 2), (1, 1), (1, 2), (3, 1), (3, 4), (3, -1)]
)
def test_threshold_that_does_not_fit_is_refused(count: int, threshold: int) -> None:
    (problem,) = recovery_key_problems(_keys(count), threshold)
    assert problem.at == "Config.RecoveryThreshold"
    with pytest.raises(InvalidError):
        make_recovery(DATA_KEY, _keys(count), threshold)


def test_more_than_255_shamir_shares_are_refused_but_not_for_xor() -> None:
    many = dict.fromkeys(map(str, range(256)), _spki(_key("zoe")))
    assert [p.at for p in recovery_key_problems(many, 3)] == ["Config.RecoveryThreshold"]
    assert recovery_key_problems(many, 0) == ()
    assert recovery_key_problems(many, 256) == ()
    del many["0"]
    assert recovery_key_problems(many, 3) == ()


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_data_key_has_exactly_32_bytes(length: int) -> None:
    with pytest.raises(BrokenError):
        make_recovery(Secret(bytes(length)), {}, 0)
