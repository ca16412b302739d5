"""Uploaded shares: verified by hashes and signatures, and combined to the data key."""

import hashlib
import os
from collections.abc import Callable
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings, strategies as st
from support.samples.recovery import Holder, encrypted, holder, holders

from keyhouse.authority import (
    EphemeralKey,
    RecoveryIndex,
    RecoveryMaterial,
    SubmittedShare,
    data_key,
    make_recovery,
    require_signed,
    require_signer,
    verify_share,
)
from keyhouse.authority.recovery.index import IndexHolder
from keyhouse.authority.recovery.submitted import PLAIN_SIZES, ShareRefusedError
from keyhouse.base.errors import BadRequestError
from keyhouse.base.secret import Secret

DEK = Secret(bytes(range(32)))
KEYS = holders(5)


def _spki(each: Holder) -> bytes:
    public = each.key.public_key()
    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@cache
def _material(count: int, threshold: int) -> RecoveryMaterial:
    return make_recovery(DEK, {each.name: _spki(each) for each in KEYS[:count]}, threshold)


def _index(material: RecoveryMaterial, threshold: int | None = None) -> RecoveryIndex:
    found = tuple(IndexHolder(h.name, h.public_key, h.share_hash) for h in material.holders)
    needed = material.effective_threshold if threshold is None else threshold
    return RecoveryIndex(bytes(16), 1, needed, found, b"", bytes(32))


@cache
def _share(by: Holder, count: int, threshold: int) -> tuple[Secret, bytes]:
    material = _material(count, threshold)
    share = by.share(material.ciphertexts[by.name])
    return Secret(share), by.sign(share)


def test_plain_shares_have_the_sizes_that_splitting_gives_and_an_early_one() -> None:
    made = {len(_share(KEYS[0], count, threshold)[0]) for count, threshold in ((3, 0), (3, 2))}
    assert made | {16} == PLAIN_SIZES


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_enough_holders_in_any_order_give_the_data_key_and_fewer_never(
    data: st.DataObject,
) -> None:
    count = data.draw(st.integers(1, 5))
    threshold = data.draw(st.sampled_from([0, *range(2, count + 1)]))
    index = _index(_material(count, threshold))
    order = data.draw(st.permutations(KEYS[:count]))
    submitted: list[SubmittedShare] = []
    for by in order[: index.threshold]:
        with pytest.raises(ShareRefusedError):
            data_key(index, submitted)
        share, signature = _share(by, count, threshold)
        assert require_signer(index, signature, [d.name for d in submitted]).name == by.name
        submitted.append(verify_share(index, share, signature, [d.name for d in submitted]))
    assert data_key(index, submitted) == DEK
    keys = {each.name: _spki(each) for each in KEYS[:count]}
    shares = {h.name: h.share_hash for h in index.holders}
    require_signed(submitted, keys, shares)
    with pytest.raises(ShareRefusedError):
        require_signed([*submitted, submitted[0]], keys, shares)
    with pytest.raises(ShareRefusedError):
        require_signed(submitted, keys | {order[0].name: _spki(holder("stranger"))}, shares)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=600), st.binary(max_size=600))
def test_arbitrary_bytes_are_refused_with_our_error(share: bytes, signature: bytes) -> None:
    index = _index(_material(3, 2))
    for wrong in (share, share[:32], share[:33]):
        with pytest.raises(ShareRefusedError):
            verify_share(index, Secret(wrong), signature, ())
    for wrong in (signature, signature[:256].ljust(256, b"\0")):
        with pytest.raises(ShareRefusedError):
            require_signer(index, wrong, ())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 255), st.integers(0, 7))
def test_one_changed_bit_of_a_signature_is_refused(at: int, bit: int) -> None:
    share, signature = _share(KEYS[0], 3, 2)
    bent = bytearray(signature)
    bent[at] ^= 1 << bit
    index = _index(_material(3, 2))
    with pytest.raises(ShareRefusedError):
        verify_share(index, share, bytes(bent), ())
    with pytest.raises(ShareRefusedError):
        require_signer(index, bytes(bent), ())


@pytest.mark.parametrize("bend", [lambda raw: b"\0" + raw, lambda raw: raw + b"\0"])
def test_a_signature_of_another_length_is_refused(bend: Callable[[bytes], bytes]) -> None:
    """OpenSSL accepts an RSA signature only at exactly the length of the modulus."""
    share, signature = _share(KEYS[0], 3, 2)
    with pytest.raises(ShareRefusedError):
        verify_share(_index(_material(3, 2)), share, bend(signature), ())


def test_shares_that_were_admitted_are_refused_by_name() -> None:
    share, signature = _share(KEYS[0], 3, 2)
    index = _index(_material(3, 2))
    with pytest.raises(ShareRefusedError, match=r'"rk0" .*before'):
        verify_share(index, share, signature, ["rk0"])
    with pytest.raises(ShareRefusedError, match=r'"rk0" .*before'):
        require_signer(index, signature, ["rk0"])


def test_no_error_shows_a_share() -> None:
    share, _ = _share(KEYS[0], 3, 2)
    index = _index(_material(3, 2))
    with pytest.raises(ShareRefusedError) as refused:
        verify_share(index, share, b"", ())
    assert share.reveal().hex() not in repr(refused.value) + str(refused.value)
    assert "Secret of 33 bytes" in repr(SubmittedShare("rk0", share, b""))


@pytest.mark.parametrize(
    "public_key",
    [
        b"",
        b"no key",
        ec.generate_private_key(ec.SECP256R1())
        .public_key()
        .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    ],
    ids=["nothing", "garbage", "elliptic"],
)
def test_index_with_invalid_keys_admits_nothing(public_key: bytes) -> None:
    share, signature = _share(KEYS[0], 3, 2)
    digest = hashlib.sha256(share.reveal()).digest()
    index = RecoveryIndex(bytes(16), 1, 1, (IndexHolder("a", public_key, digest),), b"", bytes(32))
    with pytest.raises(ShareRefusedError):
        verify_share(index, share, signature, ())


def test_index_with_another_threshold_gives_no_data_key() -> None:
    material = _material(3, 2)
    submitted = [SubmittedShare(by.name, *_share(by, 3, 2)) for by in KEYS[:3]]
    with pytest.raises(ShareRefusedError, match="do not fit together"):
        data_key(_index(material, 3), submitted)  # shares for XOR have 32 bytes, not 33
    with pytest.raises(ShareRefusedError, match="do not fit together"):
        data_key(RecoveryIndex(bytes(16), 1, 0, (), b"", bytes(32)), [])
    short = [
        SubmittedShare("a", Secret(b"short"), b""),
        SubmittedShare("b", Secret(b"shorter"), b""),
    ]
    with pytest.raises(ShareRefusedError, match="do not fit together"):
        data_key(_index(material, 2), short)


def test_ephemeral_key_decrypts_what_is_for_it_and_says_nothing_about_the_rest() -> None:
    key = EphemeralKey()
    assert key.decrypt(encrypted(key.public_key, b"share")).reveal() == b"share"
    said = set()
    for wrong in (b"", os.urandom(511), os.urandom(512), os.urandom(513), b"\xff" * 512):
        with pytest.raises(BadRequestError) as refused:
            key.decrypt(wrong)
        assert refused.value.fields.keys() == {"recoverySecret"}
        said.add(str(refused.value))
    assert len(said) == 1


def test_a_holder_cannot_submit_something_else_than_the_share() -> None:
    """A wrong share with a valid signature would spoil the recovery of all holders."""
    index = _index(_material(3, 2))
    for made_up in (bytes(33), _share(KEYS[1], 3, 2)[0].reveal()):
        with pytest.raises(ShareRefusedError):
            verify_share(index, Secret(made_up), KEYS[0].sign(made_up), ())


def test_the_recovered_manifest_has_to_know_the_share_not_only_the_signer() -> None:
    share, signature = _share(KEYS[0], 3, 2)
    keys = {KEYS[0].name: _spki(KEYS[0])}
    own = hashlib.sha256(share.reveal()).digest()
    submission = SubmittedShare(KEYS[0].name, share, signature)
    require_signed([submission], keys, {KEYS[0].name: own})
    for hashes in ({KEYS[0].name: bytes(32)}, {KEYS[1].name: own}, {}):
        with pytest.raises(ShareRefusedError):
            require_signed([submission], keys, hashes)
