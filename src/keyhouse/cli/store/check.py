"""Checks of a store: its files, its chain and, with its key, every record.

Works on a private copy, so nothing of the store changes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec.structs import replace

from keyhouse.attestation import Platform, SealPolicy
from keyhouse.base.errors import BrokenError, KeyhouseError, NotFoundError, RefusedError
from keyhouse.base.progress import advance, begin
from keyhouse.coordinator import rebuild
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.core.timestamps import timestamp
from keyhouse.journal import (
    DirectoryHome,
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
    """Open the platform whose folder, if it has one, is in ``directory`` or above its archive."""
    from keyhouse.attestation import open_platform

    archived = directory.parent.name == "archive"
    home = directory.parent.parent if archived else directory
    if name == "simulation" and not (home / "simulation" / "machine.json").exists():
        # If it were opened, it would be made: another machine, whose key opens nothing.
        raise RefusedError(
            "the directory has no simulated machine, so nothing can be decrypted",
            hint="put the folder simulation/ beside the store, or leave out --platform",
        )
    return open_platform(name, home)


T = TypeVar("T")

CONTENTS: Final = "contents"
"""What stands for all records together, opened with the key."""

LINE: Final = "line"
"""What stands for the line of the root, and the objects that prove it."""

_TOLD: Final = 1000  # payloads between two looks at how far it is
_BACKUP = "restore the state directory from a backup"
_MIRROR: Final = (
    "keyhouse log restore brings it back from a mirror; a recovery needs the quotes of the line"
)


class NoStoreError(NotFoundError):
    """A directory that holds nothing of a store."""

    code = "no-store"


class FileChecked(msgspec.Struct, frozen=True, rename="camel"):
    """What was found about a file. ``problem`` is empty if it is as it must be."""

    file: str
    problem: str = ""
    hint: str = ""
    found: str = ""


class StoreChecked(msgspec.Struct, frozen=True, rename="camel"):
    """What was found about a store. Numbers are 0, texts empty, where nothing is known."""

    ok: bool
    decrypted: bool  # with the key: every record was opened, decoded and replayed
    files: tuple[FileChecked, ...]
    store_id: str = ""
    records: int = 0  # of the present epoch
    events: int = 0  # those of them that came after its base
    state: str = ""  # where the journal ends, as in the header Keyhouse-State
    chain: str = ""  # the whole chain value there, hex
    log_lines: int = 0
    newest: str = ""  # time of the newest record
    manifest: str = ""  # fingerprint of the manifest that is enforced


async def check_store(
    folder: Path,
    platform: Platform | None,
    logs: Sequence[LogSeen] | None = None,
    *,
    needs_key: bool = True,
) -> StoreChecked:
    """Return what is found in ``folder``, a private copy; without a platform only what shows.

    ``logs``: what was found of the transparency logs beside the store; None: nobody has looked.
    ``needs_key``: it is a problem if the sealed key is missing.

    Raises:
        NoStoreError: there is nothing of a store.
    """
    key, index = _look(lambda: see_key(folder)), _look(lambda: see_index(folder))
    try:
        journal: JournalSeen | KeyhouseError | None = await see_journal(folder)
    except KeyhouseError as error:
        journal = error
    if key is None and index == () and journal is None:
        ended = see_tombstone(folder)
        raise NoStoreError(
            f"there is no store: {ended or 'no manifest was ever set here'}",
            hint="name a state directory, or one of the directories in its archive",
        )
    files = (_of_index(index, journal), _of_journal(journal), *map(_of_log, logs or ()))
    if key is not None or needs_key:
        files = (_of_key(key, journal), *files)
    tombstone = _look(lambda: see_tombstone(folder))
    if tombstone is not None:
        files = (*files, _of_tombstone(tombstone))
    checked = StoreChecked(ok=all(not each.problem for each in files), decrypted=False, files=files)
    if isinstance(journal, JournalSeen):
        checked = _with_journal(checked, journal)
    return checked if platform is None else await _with_contents(checked, folder, platform, logs)


async def _with_contents(
    checked: StoreChecked, folder: Path, platform: Platform, logs: Sequence[LogSeen] | None
) -> StoreChecked:
    """Open the store as a start does, and replay everything in it."""
    begin("decrypting records", checked.records)
    try:
        home = await DirectoryHome.open(
            folder,
            platform_kind=platform.kind,
            sealing_key=lambda policy: platform.sealing_key(SealPolicy(policy)),
        )
        try:
            loaded = await home.load()
        finally:
            await home.close()
        if not isinstance(loaded, Opened):
            raise _locked(loaded)
        state, log = rebuild(_told(loaded.replay.base + loaded.replay.events))
        if state.platform != platform.kind:
            raise BrokenError(
                f"the state was made on the platform {state.platform}, this is {platform.kind}",
                hint="no state moves between kinds of platforms",
            )
    except KeyhouseError as error:
        failed = FileChecked(CONTENTS, error.message, error.hint or _BACKUP)
        return replace(checked, ok=False, files=(*checked.files, failed))
    lines = len(log.view())
    newest = timestamp(state.time)
    replayed = FileChecked(CONTENTS, found=f"{lines} lines of the update log, newest {newest}")
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


def _told(payloads: Sequence[bytes]) -> Iterator[bytes]:
    """Yield ``payloads``, and tell how far that is."""
    begin("replaying", len(payloads))
    for start in range(0, len(payloads), _TOLD):
        yield from (some := payloads[start : start + _TOLD])
        advance(len(some))


def _with_journal(checked: StoreChecked, seen: JournalSeen) -> StoreChecked:
    position = seen.position
    return replace(
        checked,
        store_id=seen.store_id.hex(),
        records=seen.records,
        events=seen.events,
        state=f"{position.epoch}.{position.sequence}.{position.chain[:8].hex()}",
        chain=position.chain.hex(),
    )


def _of_key(
    key: KeySeen | KeyhouseError | None, journal: JournalSeen | KeyhouseError | None
) -> FileChecked:
    if isinstance(key, KeyhouseError):
        return FileChecked(SEALED_KEY, key.message, key.hint or _BACKUP)
    if key is None:
        return FileChecked(
            SEALED_KEY, "is missing", "restore it, or recover with the recovery keys"
        )
    if isinstance(journal, JournalSeen) and journal.store_id != key.store_id:
        return FileChecked(SEALED_KEY, "belongs to another deployment than journal.db", _BACKUP)
    return FileChecked(SEALED_KEY, found=f"platform {key.platform_kind}, policy {key.policy}")


def _of_index(
    index: tuple[IndexFile, ...] | KeyhouseError, journal: JournalSeen | KeyhouseError | None
) -> FileChecked:
    if isinstance(index, KeyhouseError):
        return FileChecked(INDEX, index.message, index.hint or _BACKUP)
    if not index:
        return FileChecked(INDEX, "is missing", _BACKUP)
    if isinstance(journal, JournalSeen):
        owners = {(each.store_id, each.epoch) for each in index}
        if (journal.store_id, journal.position.epoch) not in owners:
            return FileChecked(INDEX, "does not belong to journal.db and its epoch", _BACKUP)
    return FileChecked(INDEX, found=f"epoch {max(each.epoch for each in index)}")


def _of_journal(journal: JournalSeen | KeyhouseError | None) -> FileChecked:
    if isinstance(journal, KeyhouseError):
        return FileChecked(JOURNAL, journal.message, journal.hint or _BACKUP)
    if journal is None:
        return FileChecked(JOURNAL, "is missing or empty, but a manifest was set", _BACKUP)
    return FileChecked(JOURNAL, found=f"{journal.records} records, {journal.events} after the base")


def _of_log(found: LogSeen) -> FileChecked:
    where = f"{PUBLIC_LOG}/{found.name}"
    if found.problem:
        return FileChecked(where, found.problem, _MIRROR)
    if not found.size:
        return FileChecked(where, found="no checkpoint yet: a start compares it with the journal")
    return FileChecked(where, found=f"{found.size} leaves, {len(found.objects)} objects")


def _of_line(state: Running, logs: Iterable[LogSeen]) -> FileChecked:
    """Return whether the quotes of the line are there: a recovery is refused without them."""
    name = "" if state.public_log is None else log_name(state.public_log.verifier)
    present = frozenset[str]().union(*(each.objects for each in logs if each.name == name))
    named = {each for item in state.line for each in (item.quote, item.collateral) if each}
    lost = sorted(named - present)
    if lost:
        problem = f"objects that prove the line of the root are missing: {', '.join(lost)}"
        return FileChecked(LINE, problem, _MIRROR)
    return FileChecked(LINE, found=f"{len(state.line)} entries, {len(named)} objects prove them")


def _of_tombstone(ended: Tombstone | KeyhouseError) -> FileChecked:
    """Return a tombstone beside a store as a problem."""
    if isinstance(ended, KeyhouseError):
        return FileChecked(TOMBSTONE, ended.message, ended.hint or _BACKUP)
    return FileChecked(
        TOMBSTONE,
        f"{ended}, but a store is there",
        "it is an older copy: move it away; to continue from it on purpose, remove tombstone while"
        " Keyhouse is stopped",
    )


def _locked(loaded: Fresh | Locked) -> KeyhouseError:
    reason = f": {loaded.reason}" if isinstance(loaded, Locked) else ""
    return BrokenError(
        f"it cannot be decrypted here{reason}",
        hint="a start would be in recovery mode: recover with the recovery keys, or verify it where"
        " it was made",
    )


def _look(see: Callable[[], T]) -> T | KeyhouseError:
    try:
        return see()
    except KeyhouseError as error:
        return error
