"""Check a store: its files, its chain and, with its key, every record.

The checks read a private copy, so they change nothing in the store.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec.structs import replace

from keyhouse.attestation import Platform
from keyhouse.base.errors import BrokenError, KeyhouseError, NotFoundError, RefusedError
from keyhouse.base.progress import advance, begin
from keyhouse.coordinator import rebuild
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.core.update_log import timestamp
from keyhouse.journal import (
    DirectoryStorage,
    Fresh,
    KeySeen,
    Locked,
    Opened,
    Tombstone,
    log_name,
    see_key,
    see_tombstone,
)
from keyhouse.journal.directory.disk import INDEX, JOURNAL, PUBLIC_LOG, SEALED_KEY, TOMBSTONE
from keyhouse.journal.directory.index_file import IndexFile
from keyhouse.journal.offline.inspect import JournalSeen, see_index, see_journal
from keyhouse.journal.offline.log_repair import LogSeen
from keyhouse.manifest import fingerprint

if TYPE_CHECKING:
    from keyhouse.attestation import Platform


def sealing_platform(name: str, directory: Path) -> "Platform":
    """Open the platform ``name``, which derives the sealing key of the store in ``directory``.

    ``directory`` is a state directory, or a store in its archive. The keys of a simulated platform
    are in the state directory. Raises ``RefusedError`` if they are missing.
    """
    from keyhouse.attestation import open_platform

    archived = directory.parent.name == "archive"
    folder = directory.parent.parent if archived else directory
    if name == "simulation" and not (folder / "simulation" / "machine.json").exists():
        # An attempt to open the platform would create a machine. Its new key decrypts nothing.
        raise RefusedError(
            f"{folder} has no folder simulation/ with the keys of the simulated machine, so nothing"
            " can be decrypted",
            hint=f"copy simulation/ from the state directory of the coordinator into {folder}, or"
            " omit --platform to check without decryption",
        )
    return open_platform(name, folder)


T = TypeVar("T")

CONTENTS: Final = "contents"
"""The entry of the result about all records, decrypted with the key."""

LINE: Final = "line"
"""The entry of the result about the line of the root, and the objects that prove the line."""

# Payloads between two reports of the progress, chosen: some milliseconds of work.
_PROGRESS_STEP: Final = 1000
_BACKUP = "restore the state directory from a backup"
_MIRROR: Final = (
    "restore it from a mirror with keyhouse log restore; a recovery needs the quotes of the line"
)


class NoStoreError(NotFoundError):
    """The directory has no file of a store."""

    code = "no-store"


class FileReport(msgspec.Struct, frozen=True, rename="camel"):
    """The result of the check of a file: the problem with its hint, or a text about the content.

    ``problem`` is empty for an intact file.
    """

    file: str
    problem: str = ""
    hint: str = ""
    found: str = ""


class StoreReport(msgspec.Struct, frozen=True, rename="camel"):
    """The result of the check of a store. An unknown number is 0, and an unknown text is empty."""

    ok: bool
    decrypted: bool  # every record was decrypted, decoded and replayed with the key
    files: tuple[FileReport, ...]
    store_id: str = ""
    records: int = 0  # of the present epoch
    events: int = 0  # records after the base of this epoch
    state: str = ""  # the end of the journal, as in the header Keyhouse-State
    chain: str = ""  # the whole chain value at the end, hex
    log_lines: int = 0
    newest: str = ""  # time of the newest record
    manifest: str = ""  # fingerprint of the manifest in force


async def check_store(
    folder: Path,
    platform: Platform | None,
    logs: Sequence[LogSeen] | None = None,
    *,
    needs_key: bool = True,
) -> StoreReport:
    """Check the store in ``folder``, a private copy; return the result.

    ``platform`` derives the sealing key; with None, the check decrypts nothing. ``logs``: the
    results for the transparency logs of the store, or None if the logs were not checked.
    ``needs_key``: a missing sealed key is a problem.

    Raises:
        NoStoreError: the folder has no file of a store.
    """
    key, index = _attempt(lambda: see_key(folder)), _attempt(lambda: see_index(folder))
    try:
        journal: JournalSeen | KeyhouseError | None = await see_journal(folder)
    except KeyhouseError as error:
        journal = error
    if key is None and index == () and journal is None:
        ended = see_tombstone(folder)
        raise NoStoreError(
            f"there is no store: {ended or 'no manifest was ever set here'}",
            hint="pass a state directory, or a directory in its archive",
        )
    files = (_of_index(index, journal), _of_journal(journal), *map(_of_log, logs or ()))
    if key is not None or needs_key:
        files = (_of_key(key, journal), *files)
    tombstone = _attempt(lambda: see_tombstone(folder))
    if tombstone is not None:
        files = (*files, _of_tombstone(tombstone))
    checked = StoreReport(ok=all(not each.problem for each in files), decrypted=False, files=files)
    if isinstance(journal, JournalSeen):
        checked = _with_journal(checked, journal)
    return checked if platform is None else await _with_contents(checked, folder, platform, logs)


async def _with_contents(
    checked: StoreReport, folder: Path, platform: Platform, logs: Sequence[LogSeen] | None
) -> StoreReport:
    """Decrypt the store in ``folder`` and replay all records; return ``checked`` with the results.

    ``platform`` derives the sealing key. ``logs`` as for ``check_store``.
    """
    begin("decrypting records", checked.records)
    try:
        storage = await DirectoryStorage.open(
            folder,
            platform_kind=platform.kind,
            sealing_key=platform.sealing_key,
        )
        try:
            loaded = await storage.load()
        finally:
            await storage.close()
        if not isinstance(loaded, Opened):
            raise _locked_error(loaded)
        state, log = rebuild(_with_progress(loaded.replay.base + loaded.replay.events))
        if state.platform != platform.kind:
            raise BrokenError(
                f"the state was made on the platform {state.platform}, but this machine has the"
                f" platform {platform.kind}",
                hint=f"verify the store on the platform {state.platform}: a state cannot move"
                " to another platform",
            )
    except KeyhouseError as error:
        failed = FileReport(CONTENTS, error.message, error.hint or _BACKUP)
        return replace(checked, ok=False, files=(*checked.files, failed))
    lines = len(log.view())
    newest = timestamp(state.time)
    replayed = FileReport(CONTENTS, found=f"{lines} lines of the update log, newest {newest}")
    proofs = (_of_line(state, logs),) if logs is not None and state.line else ()
    return replace(
        checked,
        ok=checked.ok and not any(each.problem for each in proofs),
        decrypted=True,
        files=(*checked.files, replayed, *proofs),
        log_lines=lines,
        newest=newest,
        manifest=fingerprint(state.manifest),
    )


def _with_progress(payloads: Sequence[bytes]) -> Iterator[bytes]:
    """Yield each decrypted record in ``payloads``, and report the progress."""
    begin("replaying", len(payloads))
    for start in range(0, len(payloads), _PROGRESS_STEP):
        yield from (some := payloads[start : start + _PROGRESS_STEP])
        advance(len(some))


def _with_journal(checked: StoreReport, journal: JournalSeen) -> StoreReport:
    position = journal.position
    return replace(
        checked,
        store_id=journal.store_id.hex(),
        records=journal.records,
        events=journal.events,
        state=f"{position.epoch}.{position.sequence}.{position.chain[:8].hex()}",
        chain=position.chain.hex(),
    )


def _of_key(
    key: KeySeen | KeyhouseError | None, journal: JournalSeen | KeyhouseError | None
) -> FileReport:
    if isinstance(key, KeyhouseError):
        return FileReport(SEALED_KEY, key.message, key.hint or _BACKUP)
    if key is None:
        return FileReport(SEALED_KEY, "is missing", "restore it, or recover with the recovery keys")
    if isinstance(journal, JournalSeen) and journal.store_id != key.store_id:
        return FileReport(SEALED_KEY, "belongs to a different deployment than journal.db", _BACKUP)
    return FileReport(SEALED_KEY, found=f"platform {key.platform_kind}, policy {key.policy}")


def _of_index(
    index: tuple[IndexFile, ...] | KeyhouseError, journal: JournalSeen | KeyhouseError | None
) -> FileReport:
    if isinstance(index, KeyhouseError):
        return FileReport(INDEX, index.message, index.hint or _BACKUP)
    if not index:
        return FileReport(INDEX, "is missing", _BACKUP)
    if isinstance(journal, JournalSeen):
        owners = {(each.store_id, each.epoch) for each in index}
        if (journal.store_id, journal.position.epoch) not in owners:
            return FileReport(INDEX, "does not belong to journal.db and its epoch", _BACKUP)
    return FileReport(INDEX, found=f"epoch {max(each.epoch for each in index)}")


def _of_journal(journal: JournalSeen | KeyhouseError | None) -> FileReport:
    if isinstance(journal, KeyhouseError):
        return FileReport(JOURNAL, journal.message, journal.hint or _BACKUP)
    if journal is None:
        return FileReport(JOURNAL, "is missing or empty, but a manifest was set", _BACKUP)
    return FileReport(JOURNAL, found=f"{journal.records} records, {journal.events} after the base")


def _of_log(log: LogSeen) -> FileReport:
    where = f"{PUBLIC_LOG}/{log.name}"
    if log.problem:
        return FileReport(where, log.problem, _MIRROR)
    if not log.size:
        return FileReport(where, found="no checkpoint yet: a start compares it with the journal")
    return FileReport(where, found=f"{log.size} leaves, {len(log.objects)} objects")


def _of_line(state: Running, logs: Iterable[LogSeen]) -> FileReport:
    """Check that ``logs`` have all objects of the line of the root in ``state``; return the result.

    A recovery needs these objects: quotes and their collateral.
    """
    name = "" if state.public_log is None else log_name(state.public_log.verifier)
    present = frozenset[str]().union(*(each.objects for each in logs if each.name == name))
    expected = {each for item in state.line for each in (item.quote, item.collateral) if each}
    missing = sorted(expected - present)
    if missing:
        problem = f"objects that prove the line of the root are missing: {', '.join(missing)}"
        return FileReport(LINE, problem, _MIRROR)
    return FileReport(LINE, found=f"{len(state.line)} entries, {len(expected)} objects prove them")


def _of_tombstone(ended: Tombstone | KeyhouseError) -> FileReport:
    """Return the problem of a directory with both a store and the file ``tombstone``.

    The file records that a store was erased here. ``ended`` is its content, or the error about an
    unreadable file.
    """
    if isinstance(ended, KeyhouseError):
        return FileReport(TOMBSTONE, ended.message, ended.hint or _BACKUP)
    return FileReport(
        TOMBSTONE,
        f"{ended}, but the directory has a store",
        "the store is an older copy: move the store away; to continue from it on purpose, remove"
        " the file tombstone while Keyhouse is stopped",
    )


def _locked_error(loaded: Fresh | Locked) -> KeyhouseError:
    reason = f": {loaded.reason}" if isinstance(loaded, Locked) else ""
    return BrokenError(
        f"the store cannot be decrypted here{reason}",
        hint="verify the store on its own machine, or recover with the recovery keys: a start here"
        " would be in recovery mode",
    )


def _attempt(see: Callable[[], T]) -> T | KeyhouseError:
    try:
        return see()
    except KeyhouseError as error:
        return error
