"""The possible contents of a state directory, and the refusals of inconsistent contents."""

import msgspec

from keyhouse.base.errors import BrokenError
from keyhouse.journal.chain import Replay
from keyhouse.journal.directory.disk import TOMBSTONE
from keyhouse.journal.directory.tombstone import Tombstone
from keyhouse.journal.epoch_reader import StoreEmptyError
from keyhouse.journal.journal import Journal
from keyhouse.journal.store.protocol import Position, StoreDamagedError

_GIVE_UP = (
    "restore the state directory from a backup; to give up the old state, move the directory away"
)


class WrongPlatformError(BrokenError):
    """The state belongs to another kind of platform."""

    code = "wrong-platform"


class MixedDeploymentsError(StoreDamagedError):
    """Two files in the state directory belong to different deployments."""

    code = "mixed-deployments"


class StoreEndedError(BrokenError):
    """Files of a store exist beside the tombstone of its erasure."""

    code = "store-ended"


class Fresh(msgspec.Struct, frozen=True):
    """No store exists: no manifest was ever set, or the deployment has no state on the disk.

    ``ended`` describes the erased store of such a deployment, which has the seal mode ``Disabled``.
    """

    ended: Tombstone | None = None


class Locked(msgspec.Struct, frozen=True):
    """A journal exists, but this platform cannot open it: recovery mode.

    ``recovery_index`` is the content of the recovery index for the journal's epoch; empty if there
    is none. ``recovery_index``, ``store_id`` and ``epoch`` are not proven.
    """

    reason: str
    store_id: bytes
    epoch: int
    recovery_index: bytes


class LineMark(msgspec.Struct, frozen=True):
    """The length and the last hash of a proven line of a root, for seals and for notes."""

    root: bytes  # SHA-256 of the root certificate
    entries: int  # number of proven entries
    last: bytes  # hash of the last proven entry
    rule: bytes  # digest of the rule of the proof


class Vouched(msgspec.Struct, frozen=True):
    """The statement of a seal or of a replica: the proven line, and a place of the journal."""

    line: LineMark
    place: Position
    is_own: bool  # True: by exactly this code; False: by any code of its signer


class Opened(msgspec.Struct, frozen=True):
    """An open journal, completely verified.

    ``policy``: the seal mode; empty after a recovery or a hand-off, until this machine seals the
    data key. ``vouched``: the statement about the line, from the seal or from the replica that sent
    the data key.
    """

    journal: Journal
    replay: Replay
    policy: str
    recovery_index: bytes
    vouched: Vouched | None = None


def empty_journal(what: str = "empty") -> StoreEmptyError:
    """Return the refusal of a journal without a record; ``what`` is the fault in words."""
    return StoreEmptyError(f"journal.db is {what}, but a manifest was set before", hint=_GIVE_UP)


def missing_journal(present: str) -> StoreEmptyError:
    """Return the refusal of a store without a journal, but with another file, ``present``."""
    return StoreEmptyError(
        f"{present} is there but journal.db is missing: a manifest was set before", hint=_GIVE_UP
    )


def ended_but_there(ended: Tombstone, present: str) -> StoreEndedError:
    """Return the refusal of a store with the file ``present`` beside a tombstone."""
    return StoreEndedError(
        f"{ended}, but {present} is there",
        hint=f"move {present} away, because it belongs to an older copy; to continue from this"
        f" copy on purpose, remove {TOMBSTONE} while Keyhouse is stopped",
    )


def mixed(first: str, second: str) -> MixedDeploymentsError:
    """Return the refusal of the files ``first`` and ``second``, which have different store ids."""
    return MixedDeploymentsError(
        f"{first} and {second} belong to different deployments",
        hint="restore the state directory from one backup",
    )
