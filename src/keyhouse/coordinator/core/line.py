"""The line of the root in the state: the entries that each change appends. Pure.

The line lists every manifest that was in force under a root key, with the code that made the
manifest take effect. Each entry has the hash of the entry before it. Source: ``transparency.line``.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from keyhouse.base.errors import BrokenError, ConflictError
from keyhouse.coordinator.core.events import FLUSH_LEVEL, LINE_LEVEL, LIVING_LEVEL
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import LineItem, Running
from keyhouse.manifest import fingerprint
from keyhouse.transparency import line as lines
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import name_in_leaf
from keyhouse.transparency.line import MOST_ENTRIES, Code, Entry, RootLine, encode_entry, hash_of

HOLDERS: Final = 10
"""Names of holders in one entry. A name has at most about 3 KiB of JSON; most have 20 bytes."""

Items = tuple[LineItem, ...]


def line_of(state: Running) -> RootLine | None:
    """Return the line of the root of ``state``, or None for a journal of an older version.

    Raises ``BrokenError`` for invalid entries, and for a last manifest that is not in force.
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
            f"the line of the root ends with the manifest {line.manifests[-1]}; the manifest in"
            " force is"
            f" {fingerprint(state.manifest)}",
            hint="restore a backup",
        )
    return line


def level_of(state: Running) -> int:
    """Return the event level of the journal of ``state``: readers need at least this level."""
    if state.shares_flush:
        return FLUSH_LEVEL
    living = state.lineages or state.former_roots or state.revoked_platforms
    if living or policy_of(state.manifest).manifest.is_living:
        return LIVING_LEVEL
    return LINE_LEVEL if state.line else 1


def created(state: Running, code: Code, time: int) -> Items:
    """Return the first entry of the line of a new deployment with the state ``state``.

    ``code`` made the root and accepted the manifest, at ``time`` (microseconds since 1970).
    """
    entry = lines.Created(
        previous="", time=time, root=_root(state), manifest=fingerprint(state.manifest), code=code
    )
    return (LineItem(encode_entry(entry)),)


def adopted(state: Running, code: Code, time: int) -> Items:
    """Return the first entry of the line for a root that is older than the line.

    ``code`` adopted the root at ``time`` (microseconds since 1970). The line proves nothing about
    earlier manifests; the operator has to vouch for them.
    """
    entry = lines.Adopted(
        previous="", time=time, root=_root(state), manifest=fingerprint(state.manifest), code=code
    )
    return (LineItem(encode_entry(entry)),)


def updated(before: Running, manifest: bytes, code: Code, time: int) -> Items:
    """Return the entry of the line for an update to ``manifest`` after the state ``before``.

    ``code`` applied the update at ``time`` (microseconds since 1970). Raises ``ConflictError`` if
    the line is full.
    """
    if len(before.line) >= MOST_ENTRIES:
        raise ConflictError(
            f"the line of the root has the maximum of {MOST_ENTRIES} entries",
            hint="begin a new deployment",
        )
    return _appended(
        before.line,
        lines.ManifestEntry(previous="", time=time, manifest=fingerprint(manifest), code=code),
    )


def started(
    state: Running, code: Code, time: int, *, holders: Iterable[str] = (), new_log: str = ""
) -> Items:
    """Return the line entries of a start: a recovery by ``holders``, new code, and a new log.

    ``code`` started at ``time`` (microseconds since 1970). ``new_log``: the origin of a log that
    this start begins; empty: none. These entries only inform readers of the line. A line without
    room for all of them gets none.
    """
    names = [name_in_leaf(name) for name in holders]
    entries: list[Entry] = [
        lines.RecoveredEntry(previous="", time=time, holders=tuple(names[at : at + HOLDERS]))
        for at in range(0, len(names), HOLDERS)
    ]
    if not _has_code(state, code):
        entries.append(lines.CodeEntry(previous="", time=time, code=code))
    if new_log:
        entries.append(lines.NewLogEntry(previous="", time=time, origin=new_log))
    if len(state.line) + len(entries) >= MOST_ENTRIES:
        return ()
    return _appended(state.line, *entries)


def _has_code(state: Running, code: Code) -> bool:
    line = line_of(state)
    known = () if line is None else line.entries
    return any(
        each.code == code
        for each in known
        if not isinstance(each, lines.RecoveredEntry | lines.NewLogEntry)
    )


def _appended(before: Items, *entries: Entry) -> Items:
    """Return the given entries as items after ``before``, each with the hash of its predecessor."""
    items: list[LineItem] = []
    for entry in entries:
        last = items[-1] if items else before[-1]
        chained = replace(entry, previous=hash_of(last.entry).hex())
        items.append(LineItem(encode_entry(chained)))
    return tuple(items)


def _root(state: Running) -> str:
    return hashlib.sha256(state.keys.root_cert).hexdigest()
