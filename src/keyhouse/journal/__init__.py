"""The journal: encrypted, chained records of events, in a store with a small protocol."""

from keyhouse.journal.chain import MAX_PAYLOAD, Position
from keyhouse.journal.codec import Codec, Undecodable, Unencodable
from keyhouse.journal.directory.acquire import check_state_directory
from keyhouse.journal.directory.disk import InsecureFile
from keyhouse.journal.directory.found import (
    Fresh,
    Locked,
    MixedDeployments,
    Opened,
    StoreEnded,
    WrongPlatform,
)
from keyhouse.journal.directory.home import Home
from keyhouse.journal.directory.inspect import (
    JournalSeen,
    KeySeen,
    see_index,
    see_journal,
    see_key,
    see_tombstone,
)
from keyhouse.journal.directory.tombstone import Tombstone
from keyhouse.journal.journal import Journal, NotDurable, RolledBack, StoreEmpty, Weight, WrongKey
from keyhouse.journal.keys import DEK_SIZE, STORE_ID_SIZE, index_mac_key
from keyhouse.journal.offline.archive import NotRestorable, StoreSeen, list_stores, restore
from keyhouse.journal.offline.backup import NotEmpty, make_backup, restore_backup
from keyhouse.journal.offline.live_copy import StoreBusy
from keyhouse.journal.offline.private_copy import private_copy
from keyhouse.journal.replay import Continuation, Replay
from keyhouse.journal.store.memory import MemoryStore
from keyhouse.journal.store.protocol import (
    Conflict,
    OutcomeUnknown,
    Store,
    StoreDamaged,
    StoreFull,
    StoreLocked,
    StoreNewer,
    StoreUnreadable,
)
from keyhouse.journal.store.sqlite import SqliteStore

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
    "JournalSeen",
    "KeySeen",
    "Locked",
    "MemoryStore",
    "MixedDeployments",
    "NotDurable",
    "NotEmpty",
    "NotRestorable",
    "Opened",
    "OutcomeUnknown",
    "Position",
    "Replay",
    "RolledBack",
    "SqliteStore",
    "Store",
    "StoreBusy",
    "StoreDamaged",
    "StoreEmpty",
    "StoreEnded",
    "StoreFull",
    "StoreLocked",
    "StoreNewer",
    "StoreSeen",
    "StoreUnreadable",
    "Tombstone",
    "Undecodable",
    "Unencodable",
    "Weight",
    "WrongKey",
    "WrongPlatform",
    "check_state_directory",
    "index_mac_key",
    "list_stores",
    "make_backup",
    "private_copy",
    "restore",
    "restore_backup",
    "see_index",
    "see_journal",
    "see_key",
    "see_tombstone",
]
