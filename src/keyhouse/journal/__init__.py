"""The encrypted, chained record of events behind a small store protocol."""

from keyhouse.journal.chain import MAX_PAYLOAD, Position
from keyhouse.journal.codec import Codec, Undecodable, Unencodable
from keyhouse.journal.journal import Journal, NotDurable, RolledBack, StoreEmpty, WrongKey
from keyhouse.journal.memory import MemoryStore
from keyhouse.journal.replay import Continuation, Replay
from keyhouse.journal.sqlite import SqliteStore
from keyhouse.journal.store import (
    Conflict,
    OutcomeUnknown,
    Store,
    StoreDamaged,
    StoreFull,
    StoreLocked,
    StoreNewer,
    StoreUnreadable,
)

__all__ = [
    "MAX_PAYLOAD",
    "Codec",
    "Conflict",
    "Continuation",
    "Journal",
    "MemoryStore",
    "NotDurable",
    "OutcomeUnknown",
    "Position",
    "Replay",
    "RolledBack",
    "SqliteStore",
    "Store",
    "StoreDamaged",
    "StoreEmpty",
    "StoreFull",
    "StoreLocked",
    "StoreNewer",
    "StoreUnreadable",
    "Undecodable",
    "Unencodable",
    "WrongKey",
]
