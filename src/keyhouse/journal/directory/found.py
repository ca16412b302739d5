"""What a state directory contains, and the refusals of inconsistent ones."""

import msgspec

from keyhouse.base.errors import BrokenError
from keyhouse.journal.directory.disk import TOMBSTONE
from keyhouse.journal.directory.tombstone import Tombstone
from keyhouse.journal.journal import Journal, StoreEmptyError
from keyhouse.journal.replay import Replay
from keyhouse.journal.store.protocol import Position, StoreDamagedError

_GIVE_UP = (
    "restore the state directory from a backup; to give up what it held, move the directory away"
)


class WrongPlatformError(BrokenError):
    """The state belongs to another kind of platform than this one."""

    code = "wrong-platform"


class MixedDeploymentsError(StoreDamagedError):
    """Two files in the state directory belong to different deployments."""

    code = "mixed-deployments"


class StoreEndedError(BrokenError):
    """Files of a store are beside the tombstone that says it was erased."""

    code = "store-ended"


class Fresh(msgspec.Struct, frozen=True):
    """There is no store: no manifest was ever set, or none whose state is kept on the disk.

    ``ended`` describes a store that was erased because its deployment keeps nothing on the disk.
    """

    ended: Tombstone | None = None


class Locked(msgspec.Struct, frozen=True):
    """There is a journal that this platform cannot open: recovery mode.

    ``recovery_index`` is the content for the journal's epoch, empty if there is none. It is not
    proven, and neither are ``store_id`` and ``epoch``.
    """

    reason: str
    store_id: bytes
    epoch: int
    recovery_index: bytes


class LineMark(msgspec.Struct, frozen=True):
    """A line of a root that was proven, up to one of its entries."""

    root: bytes  # SHA-256 of the root certificate
    entries: int  # so many
    last: bytes  # hash of the last of them
    rule: bytes  # digest of the rule that it was proven by


class Vouched(msgspec.Struct, frozen=True):
    """A mark, and the place of the journal that was reached when it was made."""

    line: LineMark
    place: Position
    is_own: bool  # made by exactly this code; else by any code of its signer


class Opened(msgspec.Struct, frozen=True):
    """The journal is open and everything in it verified. ``policy`` is empty while recovering.

    ``vouched``: what its seal, or the coordinator that handed the key over, says of the line.
    """

    journal: Journal
    replay: Replay
    policy: str
    recovery_index: bytes
    vouched: Vouched | None = None


def empty_journal(what: str = "empty") -> StoreEmptyError:
    """Return the refusal of a journal without a record."""
    return StoreEmptyError(f"journal.db is {what}, but a manifest was set before", hint=_GIVE_UP)


def missing_journal(present: str) -> StoreEmptyError:
    """Return the refusal of a store without a journal, but with another file, ``present``."""
    return StoreEmptyError(
        f"{present} is there but journal.db is missing: a manifest was set before", hint=_GIVE_UP
    )


def ended_but_there(ended: Tombstone, present: str) -> StoreEndedError:
    """Return the refusal of a store whose file ``present`` is beside a tombstone."""
    return StoreEndedError(
        f"{ended}, but {present} is there",
        hint="it is an older copy: move it away; to continue from it on purpose, remove "
        f"{TOMBSTONE} while Keyhouse is stopped",
    )


def mixed(first: str, second: str) -> MixedDeploymentsError:
    """Return the refusal of two files that have different store ids."""
    return MixedDeploymentsError(
        f"{first} and {second} belong to different deployments",
        hint="restore the state directory from one backup",
    )
