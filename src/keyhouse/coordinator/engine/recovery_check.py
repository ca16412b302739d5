"""The complete check of a recovered state, before any key in it is used or sealed.

Until now everything depended on the recovery index, which the host could replace. Now the journal
is open, and all of this must hold:

1. The state is of the platform that runs here.
2. The index that the shares were verified with is of this journal: MAC under its data key, store
   id, epoch.
3. The index agrees with the state: root, manifest, holders, threshold. The root key belongs to the
   root certificate, and signed the manifest.
4. The manifest in force has recovery keys, and the shares are signed by them. A state without
   recovery keys cannot be recovered with any key (GHSA-w7wm-2425-7p2h).
5. There are as many shares as the manifest requires, each signed by a different key of it.
6. If the measured settings claim a manifest, it is that one. A state that the host made up must not
   bypass the claim, and only the lost seal could have shown that an update led to another manifest.

Source: security rules, "Recovery".
"""

import msgspec

from keyhouse.authority import (
    IndexDamagedError,
    RecoveryIndex,
    SubmittedShare,
    check_index_mac,
    effective_threshold,
    is_signed_by_root,
    read_recovery_index,
    require_signed,
    sign_manifest,
)
from keyhouse.base.errors import RefusedError
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.recovery_index import expected_index
from keyhouse.manifest import Manifest, SealMode, fingerprint


class RecoveryRefusedError(RefusedError):
    """The state may not be recovered here with these shares."""

    code = "recovery-refused"


class OpenedWith(msgspec.Struct, frozen=True):
    """What the state was opened with, and what it is checked against."""

    index: bytes  # that the shares were verified with
    index_on_disk: bytes  # beside the journal when it was opened
    store_id: bytes  # of the journal
    epoch: int
    mac_key: Secret  # of its data key and epoch
    submitted: tuple[SubmittedShare, ...]
    platform: str  # that runs here
    claim: str = ""  # fingerprint of the only manifest that may be in force; empty: any


def check_recovered(state: Running, opened: OpenedWith) -> None:
    """Return if ``state`` may be recovered with what opened it.

    Raises:
        RecoveryRefusedError, ShareRefusedError: it may not, and no part of it may be kept.
    """
    if state.platform != opened.platform:
        raise RecoveryRefusedError(
            f"the state was made on the platform {state.platform}, this is {opened.platform}",
            hint="recover it on the platform it was made on; no state moves between kinds",
        )
    index = _proven_index(opened)
    _check_agreement(state, index)
    _check_root(state)
    _check_settings(state, opened.claim)
    _check_keys(state, policy_of(state.manifest).manifest, opened.submitted)


def _proven_index(opened: OpenedWith) -> RecoveryIndex:
    if opened.index != opened.index_on_disk:
        raise _foreign("was changed during the recovery")
    try:
        index = check_index_mac(read_recovery_index(opened.index), opened.mac_key)
    except IndexDamagedError:
        raise _foreign("does not belong to this data key") from None
    if (index.store_id, index.epoch) != (opened.store_id, opened.epoch):
        raise _foreign("is of another journal, or of another epoch of it")
    return index


def _check_agreement(state: Running, index: RecoveryIndex) -> None:
    expected = expected_index(
        state.keys,
        state.manifest,
        state.recovery,
        store_id=index.store_id,
        epoch=index.epoch,
    )
    if index != expected:
        raise _foreign("says other things than the recovered state")


def _check_root(state: Running) -> None:
    """Refuse a root key that does not belong to the root certificate, by signing with it."""
    root, manifest = state.keys.root_cert, state.manifest
    signatures = (state.signature, sign_manifest(state.keys, manifest))
    if not all(is_signed_by_root(root, signature, manifest) for signature in signatures):
        raise RecoveryRefusedError(
            "the recovered root did not sign the recovered manifest",
            hint="restore the state directory from a backup",
        )


def _check_settings(state: Running, claim: str) -> None:
    if claim and fingerprint(state.manifest) != claim:
        raise RecoveryRefusedError(
            f"the recovered manifest has the fingerprint {fingerprint(state.manifest)},"
            f" this coordinator is claimed for {claim}",
            hint="start with --claim-fingerprint of the manifest that is to be recovered",
        )
    if policy_of(state.manifest).seal_mode is SealMode.DISABLED:
        raise RecoveryRefusedError("the recovered manifest is one whose state is never stored")


def _check_keys(state: Running, manifest: Manifest, submitted: tuple[SubmittedShare, ...]) -> None:
    keys = {name: key.public_key for name, key in manifest.recovery_keys.items()}
    if not keys:
        raise RecoveryRefusedError(
            "the recovered manifest has no recovery keys, so nobody can recover it",
            hint="set a new manifest",
        )
    if keys != {holder.name: holder.public_key for holder in state.recovery.holders}:
        raise RecoveryRefusedError("the recovered manifest has other recovery keys than the shares")
    if len(submitted) != effective_threshold(len(keys), manifest.config.recovery_threshold):
        raise RecoveryRefusedError("the recovered manifest asks for another number of shares")
    shares = {holder.name: holder.share_hash for holder in state.recovery.holders}
    require_signed(submitted, keys, shares)


def _foreign(problem: str) -> RecoveryRefusedError:
    return RecoveryRefusedError(
        f"recovery_index {problem}",
        hint="restore journal.db and recovery_index from one backup, and begin again",
    )
