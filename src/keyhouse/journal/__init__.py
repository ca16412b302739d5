"""The encrypted, chained record of events behind a small store protocol."""

from keyhouse.journal.chain import MAX_PAYLOAD, Position
from keyhouse.journal.codec import Codec, Undecodable, Unencodable
from keyhouse.journal.disk import InsecureFile
from keyhouse.journal.home import Fresh, Home, Locked, MixedDeployments, Opened, WrongPlatform
from keyhouse.journal.journal import Journal, NotDurable, RolledBack, StoreEmpty, WrongKey
from keyhouse.journal.keys import DEK_SIZE, STORE_ID_SIZE, index_mac_key
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
    "DEK_SIZE",
    "MAX_PAYLOAD",
    "STORE_ID_SIZE",
    "Codec",
    "Conflict",
    "Continuation",
    "Fresh",
    "Home",
    "InsecureFile",
    "Journal",
    "Locked",
    "MemoryStore",
    "MixedDeployments",
    "NotDurable",
    "Opened",
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
    "WrongPlatform",
    "index_mac_key",
]
