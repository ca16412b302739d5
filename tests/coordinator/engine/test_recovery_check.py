"""The checks of a recovered state before the first use of the keys."""

from collections.abc import Callable
from functools import cache

import msgspec
import pytest
from support.samples.crafted import EPOCH, Made, keys_of_a_root, made
from support.samples.recovery import holders, recoverable

from keyhouse.authority import SubmittedShare, make_recovery, recovery_index
from keyhouse.authority.recovery.submitted import ShareRefusedError
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.engine.recover import OpenedWith, RecoveryRefusedError, check_recovered
from keyhouse.journal import index_mac_key

KEYS = holders(3)


@cache
def _crafted(count: int = 3, threshold: int = 2, **config: str) -> Made:
    raw = recoverable(KEYS[:count], threshold)
    if config:
        content = msgspec.json.decode(raw)
        content["Config"] |= config
        raw = msgspec.json.encode(content)
    return made(raw)


def _opened(crafted: Made, shares: int = 2) -> OpenedWith:
    mac_key = index_mac_key(crafted.dek, crafted.store_id, EPOCH)
    index = recovery_index(crafted.index, keys=crafted.signer, mac_key=mac_key)
    own = [(by, by.share(crafted.running.recovery.ciphertexts[by.name])) for by in KEYS[:shares]]
    return OpenedWith(
        index=index,
        index_on_disk=index,
        store_id=crafted.store_id,
        epoch=EPOCH,
        mac_key=mac_key,
        submitted=tuple(SubmittedShare(by.name, Secret(it), by.sign(it)) for by, it in own),
        platform=crafted.running.platform,
    )


def _refused(state: Running, opened: OpenedWith) -> str:
    with pytest.raises((RecoveryRefusedError, ShareRefusedError)) as refused:
        check_recovered(state, opened)
    return str(refused.value)


@pytest.mark.parametrize(("count", "threshold", "shares"), [(1, 0, 1), (3, 0, 3), (3, 2, 2)])
def test_true_state_with_enough_shares_is_accepted(count: int, threshold: int, shares: int) -> None:
    crafted = _crafted(count, threshold)
    opened = _opened(crafted, shares)
    check_recovered(crafted.running, opened)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"index_on_disk": b"another"}, "was changed during the recovery"),
        ({"store_id": bytes(16)}, "belongs to another journal"),
        ({"epoch": EPOCH + 1}, "another epoch"),
        ({"mac_key": Secret(bytes(32))}, "does not belong to this data key"),
        ({"index": b"", "index_on_disk": b""}, "does not belong to this data key"),
        ({"platform": "another"}, "runs on another"),
        ({"submitted": ()}, "requires 2 shares; 0 were submitted"),
    ],
    ids=["exchanged", "store", "epoch", "MAC", "garbage", "platform", "no shares"],
)
def test_state_opened_with_something_else_is_refused(
    change: dict[str, object], problem: str
) -> None:
    crafted = _crafted()
    opened = msgspec.structs.replace(_opened(crafted), **change)
    assert problem in _refused(crafted.running, opened)


@pytest.mark.parametrize("shares", [1, 3])
def test_fewer_and_more_shares_than_the_manifest_requires_are_refused(shares: int) -> None:
    crafted = _crafted()
    refused = _refused(crafted.running, _opened(crafted, shares))
    assert f"requires 2 shares; {shares} were submitted" in refused


def test_share_that_another_holder_signed_is_refused() -> None:
    crafted = _crafted()
    opened = _opened(crafted)
    first, second = opened.submitted
    bent = msgspec.structs.replace(second, signature=first.signature)
    for submitted in ((first, bent), (first, first)):
        changed = msgspec.structs.replace(opened, submitted=submitted)
        assert _refused(crafted.running, changed)


def _other_root_key(state: Running) -> Running:
    keys = msgspec.structs.replace(keys_of_a_root(), root_cert=state.keys.root_cert)
    return msgspec.structs.replace(state, keys=keys)


@pytest.mark.parametrize(
    "bend",
    [_other_root_key, lambda state: msgspec.structs.replace(state, signature=b"none")],
    ids=["key", "signature"],
)
def test_root_that_did_not_sign_the_manifest_is_refused(bend: Callable[[Running], Running]) -> None:
    crafted = _crafted()
    assert "has not signed" in _refused(bend(crafted.running), _opened(crafted))


def test_index_that_says_other_things_than_the_state_is_refused() -> None:
    crafted = _crafted()
    wrong = msgspec.structs.replace(crafted.index, threshold=3)
    assert "contradicts" in _refused(
        crafted.running, _opened(msgspec.structs.replace(crafted, index=wrong))
    )


def test_shares_for_other_keys_than_the_manifest_has_are_refused() -> None:
    crafted = made(recoverable(KEYS[:2]))
    other = {each.name: each.public_key for each in made(recoverable(KEYS[1:])).index.holders}
    recovery = make_recovery(crafted.dek, other, 0)
    crafted.running = msgspec.structs.replace(crafted.running, recovery=recovery)
    crafted.reindex()
    assert "not the recovery keys of the shares" in _refused(crafted.running, _opened(crafted, 0))


def test_manifest_without_recovery_keys_is_refused() -> None:
    crafted = _crafted(0, 0)
    assert "has no recovery keys" in _refused(crafted.running, _opened(crafted, 0))


def test_state_that_is_never_stored_is_refused() -> None:
    crafted = _crafted(SealMode="Disabled")
    assert "never stored" in _refused(crafted.running, _opened(crafted))
