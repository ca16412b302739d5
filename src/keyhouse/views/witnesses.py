"""Describes the witnesses of a running coordinator: cosignatures, and the rest of the lease."""

from datetime import datetime
from operator import attrgetter
from typing import Final

import msgspec

from keyhouse.client import Coordinator
from keyhouse.client.public_log import LogCheckpoint, trusting
from keyhouse.evidence.milestones import date_of
from keyhouse.manifest import Manifest, ServeCondition
from keyhouse.transparency.keys import VerifierKey, verified
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.policy import CosignaturePolicy, Witness, WitnessGroup
from keyhouse.wire.client_api import LeaseLeft

_SECOND: Final = "%Y-%m-%d %H:%M:%S UTC"
_SHORT: Final = 4
"""A shorter part of a lease counts as short. The coordinator renews a lease at its half."""


class Cosignature(msgspec.Struct, frozen=True):
    """A witness that the manifest names, and the time of its cosignature of a checkpoint.

    ``time`` is None if the witness has not cosigned the checkpoint.
    """

    # The name of the witness in the policy.
    witness: str
    # The name of the witness's key.
    key: str
    time: datetime | None


class Witnesses(msgspec.Struct, frozen=True, rename="camel"):
    """The witnesses of the manifest in force, and the newest checkpoint with their cosignatures.

    ``lease`` is None for an older coordinator without this field. If ``enforced``, the coordinator
    stops serving secrets when the lease expires.
    """

    cosignatures: tuple[Cosignature, ...]
    # The number of entries in the checkpoint.
    entries: int
    # Whether the cosignatures form a quorum.
    quorum: bool
    enforced: bool
    lease: LeaseLeft | None
    # The whole lease, by the manifest.
    granted: LeaseLeft

    @property
    def last(self) -> Cosignature | None:
        """The latest cosignature, or None."""
        signed = (each for each in self.cosignatures if each.time is not None)
        return max(signed, key=attrgetter("time"), default=None)

    @property
    def is_short(self) -> bool:
        """Whether the lease has expired or will expire soon, because cosignatures are missing."""
        left, whole = self.lease, self.granted
        return left is not None and (
            left.seconds < whole.seconds // _SHORT or left.operations < whole.operations // _SHORT
        )


def witnesses_of(
    coordinator: Coordinator, manifest: Manifest, lease: LeaseLeft | None
) -> Witnesses | None:
    """Return the witnesses of ``manifest``, or None if the manifest names no witness.

    ``lease`` comes from the status of ``coordinator``. Raises ``TrustError`` for a log that does
    not verify, and for an invalid cosignature of a named witness.
    """
    rules = manifest.config.transparency
    if rules is None or not rules.witnesses:
        return None
    return witnesses_on(coordinator.witnessed_checkpoint(), manifest, lease)


def witnesses_on(
    checkpoint: LogCheckpoint, manifest: Manifest, lease: LeaseLeft | None
) -> Witnesses | None:
    """Return the witnesses of ``manifest`` with their cosignatures of ``checkpoint``.

    The result is None if the manifest names no witness. Use this function instead of
    ``witnesses_of`` if the newest checkpoint with cosignatures is known already.
    """
    rules = manifest.config.transparency
    if rules is None or not rules.witnesses:
        return None
    policy = CosignaturePolicy.read(rules.witnesses)
    times = _times(policy, checkpoint)
    return Witnesses(
        cosignatures=tuple(
            Cosignature(each.name, each.key.name, times.get(each.key)) for each in policy.witnesses
        ),
        entries=checkpoint.size,
        quorum=policy.holds(times),
        enforced=rules.serve == ServeCondition.WITNESSED,
        lease=lease,
        granted=LeaseLeft(rules.lease_seconds, rules.lease_operations),
    )


def _times(policy: CosignaturePolicy, checkpoint: LogCheckpoint) -> dict[VerifierKey, datetime]:
    """Return the time of each cosignature of ``checkpoint``, by the witness's key."""
    note, log = SignedNote.read(checkpoint.note), VerifierKey.read(checkpoint.verifier)
    with trusting():
        signed = verified(note, [log, *(each.key for each in policy.witnesses)])
        return {key: date_of(time) for key, time in signed.items() if key != log}


def witness_rows(witnesses: Witnesses) -> dict[str, str]:
    """Return ``witnesses`` as names and values for people."""
    rows = {"witnesses": cosigned_in_words(witnesses)}
    if witnesses.last is not None:
        rows["last cosignature"] = seen_in_words(witnesses.last)
    if witnesses.lease is not None:
        rows["lease"] = lease_in_words(witnesses, witnesses.lease)
    return rows


def seen_in_words(cosignature: Cosignature) -> str:
    """Return the name of the witness and the time of ``cosignature``, as text."""
    return f"{cosignature.witness}, {cosignature.time:{_SECOND}}"


def cosigned_in_words(witnesses: Witnesses) -> str:
    """Return a sentence about cosigned and missing witnesses, and about the quorum."""
    signed = [each.witness for each in witnesses.cosignatures if each.time is not None]
    others = [each.witness for each in witnesses.cosignatures if each.time is None]
    verb = "has" if len(signed) == 1 else "have"
    quorum = "a quorum" if witnesses.quorum else "not a quorum"
    text = f"{', '.join(signed)} {verb} cosigned {witnesses.entries} entries, {quorum}"
    if not signed:
        text = f"none has cosigned the {witnesses.entries} entries"
    return f"{text}; missing: {', '.join(others)}" if others and signed else text


def lease_in_words(witnesses: Witnesses, left: LeaseLeft) -> str:
    """Return a sentence about the service until the lease ends, and after its end.

    ``left`` has the seconds and operations that are left of the lease.
    """
    held = "then held" if witnesses.enforced else "then it continues to serve (Serve: Always)"
    if not left.seconds or not left.operations:
        return "ended" if witnesses.enforced else "ended; it continues to serve (Serve: Always)"
    return f"{left.seconds} s or {left.operations} operations left, {held}"


def quorum_in_words(quorum: WitnessGroup | Witness | None) -> str:
    """Return a quorum in words, for example ``2 of A, B, (1 of C, D)``."""
    if quorum is None:
        return "none"
    if isinstance(quorum, Witness):
        return quorum.name
    members = (
        each.name if isinstance(each, Witness) else f"({quorum_in_words(each)})"
        for each in quorum.members
    )
    return f"{quorum.needed} of {', '.join(members)}"
