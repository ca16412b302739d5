"""The recovery index beside the journal: canonical, signed, with a MAC."""

import hashlib
import hmac
from functools import cache

import msgspec
import pytest
from hypothesis import assume, given, settings, strategies as st
from support.samples.authority import NOW, coordinator_keys

from keyhouse.authority import (
    IndexDamagedError,
    RecoveryIndex,
    RecoveryMaterial,
    check_index_mac,
    index_of,
    make_coordinator_keys,
    read_recovery_index,
    recovery_index,
)
from keyhouse.authority.keys import (
    certificate_of,
    is_signed_by_root,
    private_key_of,
    sign_recovery_index,
)
from keyhouse.authority.recovery.index import IndexHolder
from keyhouse.authority.recovery.shares import RecoveryHolder
from keyhouse.base.errors import BrokenError
from keyhouse.base.secret import Secret

MAC_KEY = Secret(bytes(range(32)))
STORE = b"store-id-16bytes"


def _holder(name: str) -> IndexHolder:
    return IndexHolder(name, b"key of " + name.encode(), hashlib.sha256(name.encode()).digest())


@cache
def _index(threshold: int = 2) -> RecoveryIndex:
    return RecoveryIndex(
        store_id=STORE,
        epoch=7,
        threshold=threshold,
        holders=(_holder("alice"), _holder("bob"), _holder("zoé")),
        root_cert=coordinator_keys().root_cert,
        manifest_fingerprint=hashlib.sha256(b"{}").digest(),
    )


@cache
def _file() -> bytes:
    return recovery_index(_index(), keys=coordinator_keys(), mac_key=MAC_KEY)


@pytest.mark.parametrize("threshold", [2, 3])
def test_what_is_written_is_read(threshold: int) -> None:
    raw = recovery_index(_index(threshold), keys=coordinator_keys(), mac_key=MAC_KEY)
    assert check_index_mac(read_recovery_index(raw), MAC_KEY) == _index(threshold)


def test_index_of_a_state_that_nobody_can_recover_says_so() -> None:
    index = msgspec.structs.replace(_index(), threshold=0, holders=())
    raw = recovery_index(index, keys=coordinator_keys(), mac_key=MAC_KEY)
    assert check_index_mac(read_recovery_index(raw), MAC_KEY) == index


def test_same_index_gives_the_same_bytes() -> None:
    assert recovery_index(_index(), keys=coordinator_keys(), mac_key=MAC_KEY) == _file()


def test_signature_and_mac_cover_everything_before_them() -> None:
    raw = _file()
    sealed = read_recovery_index(raw)
    assert sealed.authenticated + sealed.mac == raw
    message = b"keyhouse recovery index mac v1\0" + sealed.authenticated
    assert hmac.digest(MAC_KEY.reveal(), message, "sha256") == sealed.mac
    body = raw[: raw.index(_index().manifest_fingerprint) + 32]
    signature = sealed.authenticated[len(body) + 4 :]
    assert is_signed_by_root(_index().root_cert, signature, b"keyhouse recovery index v1\0" + body)


def test_index_under_another_data_key_is_refused() -> None:
    with pytest.raises(IndexDamagedError, match="data key"):
        check_index_mac(read_recovery_index(_file()), Secret(bytes(32)))


def test_every_changed_byte_is_refused() -> None:
    raw = _file()
    for position in range(len(raw)):
        changed = bytearray(raw)
        changed[position] ^= 1
        with pytest.raises(IndexDamagedError):
            check_index_mac(read_recovery_index(bytes(changed)), MAC_KEY)


def test_every_cut_and_any_trailing_byte_is_refused() -> None:
    raw = _file()
    for length in range(0, len(raw), 7):
        with pytest.raises(IndexDamagedError):
            read_recovery_index(raw[:length])
    with pytest.raises(IndexDamagedError):
        read_recovery_index(raw + b"\0")


def test_an_endless_file_is_refused_for_its_length() -> None:
    with pytest.raises(IndexDamagedError, match="too long"):
        read_recovery_index(bytes(64 * 1024 * 1024 + 1))
    with pytest.raises(IndexDamagedError, match="version"):
        read_recovery_index(bytes(64 * 1024 * 1024))


def test_newer_version_is_named() -> None:
    with pytest.raises(IndexDamagedError, match="version"):
        read_recovery_index(b"\x02" + _file()[1:])


def test_holders_of_an_attacker_pass_the_signature_but_not_the_mac() -> None:
    # Any writer can sign the file with an own root. The MAC and the journal detect this.
    other = make_coordinator_keys(
        dns_names=(), ip_addresses=(), curve="P-256", now=NOW, simulated=False
    )
    index = msgspec.structs.replace(
        _index(), root_cert=other.root_cert, holders=(_holder("mallory"),), threshold=1
    )
    sealed = read_recovery_index(recovery_index(index, keys=other, mac_key=Secret(b"guess" * 7)))
    with pytest.raises(IndexDamagedError):
        check_index_mac(sealed, MAC_KEY)


def test_index_cannot_be_signed_by_another_root_than_it_names() -> None:
    with pytest.raises(BrokenError):
        recovery_index(_index(), keys=coordinator_keys("P-384"), mac_key=MAC_KEY)


@pytest.mark.parametrize(
    "change",
    [
        {"store_id": b"short"},
        {"manifest_fingerprint": b"short"},
        {"holders": (_holder("bob"), _holder("alice"))},
        {"holders": (_holder("bob"), _holder("bob"))},
        {"holders": (IndexHolder("bob", b"key", b"short"),)},
    ],
    ids=["store id", "fingerprint", "order", "twice", "hash"],
)
def test_what_is_not_canonical_is_not_written(change: dict[str, object]) -> None:
    with pytest.raises(BrokenError):
        recovery_index(
            msgspec.structs.replace(_index(), **change), keys=coordinator_keys(), mac_key=MAC_KEY
        )


def test_only_as_many_holders_as_two_bytes_count_are_written() -> None:
    holders = tuple(IndexHolder(f"{number:05}", b"", bytes(32)) for number in range(65_536))
    most = msgspec.structs.replace(_index(), holders=holders[:-1])
    recovery_index(most, keys=coordinator_keys(), mac_key=MAC_KEY)
    with pytest.raises(BrokenError):
        recovery_index(
            msgspec.structs.replace(most, holders=holders),
            keys=coordinator_keys(),
            mac_key=MAC_KEY,
        )


@pytest.mark.parametrize("threshold", [0, 1, 4])
def test_impossible_threshold_is_not_read(threshold: int) -> None:
    raw = recovery_index(_index(threshold), keys=coordinator_keys(), mac_key=MAC_KEY)
    with pytest.raises(IndexDamagedError):
        read_recovery_index(raw)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_garbage_is_refused_by_us(raw: bytes) -> None:
    for content in (raw, b"\x01" + raw):
        with pytest.raises(IndexDamagedError):
            read_recovery_index(content)


@pytest.mark.filterwarnings("ignore:Parsed a serial number:UserWarning")
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_damage_is_refused_by_us(data: st.DataObject) -> None:
    raw = bytearray(_file())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    assume(bytes(raw) != _file())
    with pytest.raises(IndexDamagedError):
        check_index_mac(read_recovery_index(bytes(raw)), MAC_KEY)


def test_index_takes_over_what_the_material_has() -> None:
    material = RecoveryMaterial(
        holders=(RecoveryHolder("alice", b"key", b"ciphertext", bytes(32)),),
        threshold=0,
        effective_threshold=1,
    )
    index = index_of(material, coordinator_keys(), b"{}", store_id=STORE, epoch=1)
    assert index.holders == (IndexHolder("alice", b"key", bytes(32)),)
    assert (index.threshold, index.epoch, index.store_id) == (1, 1, STORE)
    assert index.root_cert == coordinator_keys().root_cert
    assert index.manifest_fingerprint == hashlib.sha256(b"{}").digest()


def test_coordinators_own_bytes_that_cannot_be_read_are_an_invariant_broken() -> None:
    with pytest.raises(BrokenError):
        certificate_of(b"garbage")
    with pytest.raises(BrokenError, match=r"private key .*read"):
        private_key_of(Secret(b"garbage"))


def test_signature_is_judged_without_any_data_key() -> None:
    """Shares are verified before the journal opens, thus without the data key and its MAC key."""
    raw = _file()
    for position in range(len(raw) - 32):
        changed = bytearray(raw)
        changed[position] ^= 1
        with pytest.raises(IndexDamagedError):
            read_recovery_index(bytes(changed))


def test_holders_in_another_order_are_refused_although_the_root_signed_them() -> None:
    ours = _index()
    one, two = (
        b"".join((_framed(each.name.encode()), _framed(each.public_key), each.share_hash))
        for each in ours.holders[:2]
    )
    raw = _file()
    body = raw[: raw.index(ours.manifest_fingerprint) + 32]
    assert one + two in body
    for holders in (two + one, one + one):
        bent = body.replace(one + two, holders)
        signed = bent + _framed(sign_recovery_index(coordinator_keys(), bent))
        with pytest.raises(IndexDamagedError):
            read_recovery_index(signed + bytes(32))


def _framed(value: bytes) -> bytes:
    return len(value).to_bytes(4) + value
