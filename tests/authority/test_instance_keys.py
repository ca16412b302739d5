"""The keys of a process: encryption to the process, and its signatures."""

import pytest

from keyhouse.authority.instance_keys import (
    KEM_KEY_SIZE,
    SEALING_OVERHEAD,
    SIGNATURE_SIZE,
    SIGNING_KEY_SIZE,
    InstanceKeys,
    SealedForAnotherError,
    UnusableKeyError,
    is_signed_by,
    seal_for,
)
from keyhouse.base.secret import Secret

KEYS = InstanceKeys()
KEY = Secret(b"the data key has thirty-two byte")


def test_what_is_sealed_to_a_process_only_that_process_reads() -> None:
    sealed = seal_for(KEYS.kem, KEY, b"for this")

    assert KEYS.unseal(sealed, b"for this") == KEY
    assert len(sealed) == len(KEY) + SEALING_OVERHEAD
    assert (len(KEYS.kem), len(KEYS.signing)) == (KEM_KEY_SIZE, SIGNING_KEY_SIZE)
    assert KEY.reveal() not in sealed
    assert seal_for(KEYS.kem, KEY, b"for this") != sealed
    with pytest.raises(SealedForAnotherError):
        InstanceKeys().unseal(sealed, b"for this")


@pytest.mark.parametrize("info", [b"", b"for that", b"for this\0"])
def test_what_is_sealed_for_one_use_serves_no_other(info: bytes) -> None:
    sealed = seal_for(KEYS.kem, KEY, b"for this")

    with pytest.raises(SealedForAnotherError):
        KEYS.unseal(sealed, info)


def test_sealed_bytes_that_were_changed_are_refused() -> None:
    sealed = seal_for(KEYS.kem, KEY, b"")
    changed = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in (0, 700, 1087)]
    changed += [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in (1088, 1150)]
    changed += [sealed[:-1], sealed + b"\0", sealed[:SEALING_OVERHEAD], b""]

    for each in changed:
        with pytest.raises(SealedForAnotherError):
            KEYS.unseal(each, b"")


@pytest.mark.parametrize(
    "kem",
    [b"", KEYS.kem[:-1], KEYS.kem + b"\0", b"\xff" * KEM_KEY_SIZE, KEYS.kem[:-32] + bytes(32)],
    ids=["empty", "short", "long", "no polynomial", "no point"],
)
def test_nothing_is_sealed_to_what_is_not_a_key(kem: bytes) -> None:
    with pytest.raises(UnusableKeyError):
        seal_for(kem, KEY, b"")


def test_a_signature_is_over_exactly_this_by_exactly_that_process() -> None:
    signature = KEYS.sign(b"message")

    assert len(signature) == SIGNATURE_SIZE
    assert is_signed_by(KEYS.signing, signature, b"message")
    assert not is_signed_by(KEYS.signing, signature, b"message\0")
    assert not is_signed_by(InstanceKeys().signing, signature, b"message")
    assert not is_signed_by(KEYS.signing, signature[:-1], b"message")
    assert not is_signed_by(b"short", signature, b"message")


def test_keys_show_nothing_of_themselves() -> None:
    assert repr(KEYS) == object.__repr__(KEYS)
    assert not hasattr(KEYS, "__dict__")
