"""The names in a state directory."""

from typing import Final

LOCK: Final = "lock"  # says which process has the directory
SEALED_KEY: Final = "sealed_key"
INDEX: Final = "recovery_index"
NEXT_INDEX: Final = "recovery_index.next"  # of an epoch that is about to begin
JOURNAL: Final = "journal.db"
WAL: Final = f"{JOURNAL}-wal"
WAL_FILES: Final = (WAL, f"{JOURNAL}-shm")
ROLLBACK_JOURNAL: Final = f"{JOURNAL}-journal"  # Keyhouse never leaves one

STORE_FILES: Final = (SEALED_KEY, INDEX, NEXT_INDEX, JOURNAL, *WAL_FILES)
"""The files of a store."""

TOMBSTONE: Final = "tombstone"  # what is left of a store that was erased
INCOMING: Final = "incoming"  # a store that takes the place of the present one
PUBLIC_LOG: Final = "log"  # the transparency log, public: a directory for each log
ARCHIVE: Final = "archive"  # stores that were replaced, a directory each
