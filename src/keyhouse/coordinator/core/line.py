"""The line of the root in the state: how each change extends it. Pure."""

import hashlib
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from keyhouse.base.errors import BrokenError, ConflictError
from keyhouse.coordinator.core.state import LineItem, Running
from keyhouse.manifest import fingerprint
from keyhouse.transparency import line as lines
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import name_in_leaf
from keyhouse.transparency.line import MOST_ENTRIES, Code, Entry, RootLine, encode_entry, hash_of

HOLDERS: Final = 10
"""Holders in an entry: each name has at most some 3 KiB of JSON, most have 20 bytes."""

Items = tuple[LineItem, ...]


def line_of(state: Running) -> RootLine | None:
    """Return the line of ``state``; None: the journal of an older version has none.

    Raises ``BrokenError`` if its entries make none, or end with another manifest than the one in
    force.
    """
    if not state.line:
        return None
    try:
        line = lines.read_line([item.entry for item in state.line], state.keys.root_cert)
    except LogInvalidError as error:
        raise BrokenError(
            f"the line of the root is damaged: {error.message}", hint="restore a backup"
        ) from None
    if line.manifests[-1] != fingerprint(state.manifest):
        raise BrokenError(
            f"the line of the root ends with the manifest {line.manifests[-1]}, the state has"
            f" {fingerprint(state.manifest)}",
            hint="restore a backup",
        )
    return line


def level_of(state: Running) -> int:
    """Return which events the journal of ``state`` may have (``events.LEVEL``)."""
    return 2 if state.line else 1


def created(state: Running, code: Code, time: int) -> Items:
    """Return the line of the deployment that begins with ``state``."""
    entry = lines.Created(
        previous="", time=time, root=_root(state), manifest=fingerprint(state.manifest), code=code
    )
    return (LineItem(encode_entry(entry)),)


def adopted(state: Running, code: Code, time: int) -> Items:
    """Return the line of a root of before the line, which the operator vouches for."""
    entry = lines.Adopted(
        previous="", time=time, root=_root(state), manifest=fingerprint(state.manifest), code=code
    )
    return (LineItem(encode_entry(entry)),)


def updated(before: Running, manifest: bytes, code: Code, time: int) -> Items:
    """Return the entry of an update of ``before``. Raises ``ConflictError`` if it has no room."""
    if len(before.line) >= MOST_ENTRIES:
        raise ConflictError(
            f"the line of the root has {MOST_ENTRIES} entries, which is the most",
            hint="begin a new deployment",
        )
    return _appended(
        before.line,
        lines.ManifestEntry(previous="", time=time, manifest=fingerprint(manifest), code=code),
    )


def started(
    state: Running, code: Code, time: int, *, holders: Iterable[str] = (), new_log: str = ""
) -> Items:
    """Return the entries of a start: a recovery with the shares of ``holders``, new code, a log.

    They only inform, so they are left out where the line has no room.
    """
    names = [name_in_leaf(name) for name in holders]
    said: list[Entry] = [
        lines.RecoveredEntry(previous="", time=time, holders=tuple(names[at : at + HOLDERS]))
        for at in range(0, len(names), HOLDERS)
    ]
    if not _has_code(state, code):
        said.append(lines.CodeEntry(previous="", time=time, code=code))
    if new_log:
        said.append(lines.LogEntry(previous="", time=time, origin=new_log))
    if len(state.line) + len(said) >= MOST_ENTRIES:
        return ()
    return _appended(state.line, *said)


def _has_code(state: Running, code: Code) -> bool:
    line = line_of(state)
    known = () if line is None else line.entries
    return any(
        each.code == code
        for each in known
        if not isinstance(each, lines.RecoveredEntry | lines.LogEntry)
    )


def _appended(before: Items, *said: Entry) -> Items:
    """Return items for ``said``, each of which names the one before it."""
    items: list[LineItem] = []
    for entry in said:
        last = items[-1] if items else before[-1]
        chained = replace(entry, previous=hash_of(last.entry).hex())
        items.append(LineItem(encode_entry(chained)))
    return tuple(items)


def _root(state: Running) -> str:
    return hashlib.sha256(state.keys.root_cert).hexdigest()
