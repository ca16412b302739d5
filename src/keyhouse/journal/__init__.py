"""Store encrypted, chained records of events. Stores implement a small interface."""

from keyhouse.journal.chain import (
    DEK_SIZE,
    Codec,
    Continuation,
    Replay,
    UnencodableError,
    index_mac_key,
)
from keyhouse.journal.directory.acquire import check_state_directory
from keyhouse.journal.directory.inspect import KeySeen, see_key, see_tombstone, shows_users
from keyhouse.journal.directory.load_result import Fresh, LineMark, Locked, Opened, Vouched
from keyhouse.journal.directory.log_files import LogParts, log_name
from keyhouse.journal.directory.storage import DirectoryStorage
from keyhouse.journal.directory.storage_base import StateStorage
from keyhouse.journal.directory.tombstone import Tombstone
from keyhouse.journal.epoch_reader import RolledBackError, WrongKeyError
from keyhouse.journal.journal import Journal, TailLostError
from keyhouse.journal.log_store import LogStore
from keyhouse.journal.outcome import NotDurableError, OutcomeLostError
from keyhouse.journal.store.memory import MemoryStore
from keyhouse.journal.store.protocol import (
    STORE_ID_SIZE,
    OutcomeUnknownError,
    Position,
    StoreConflictError,
    StoreDamagedError,
    StoreUnreadableError,
)
