"""Memories in a file, for short-lived commands. Several commands may run at the same time.

::

    {"version": 3,
     "roots": {"<host:port>": "<SHA-256 of the root certificate, hex>", ...},
     "places": {"<SHA-256, hex>": ["<epoch>.<sequence>.<16 hex digits>", ...], ...},
     "heads": {"<SHA-256, hex>": ["<size of the log>.<16 hex digits>", ...], ...},
     "lines": {"<SHA-256, hex>": {"first": "<fingerprint of the first manifest>",
                                  "number": <entries>, "last": "<SHA-256 of the last, hex>",
                                  "accepted": <entries that the user has accepted>}, ...}}

Versions 1 and 2 are still read. Version 1 has neither heads nor lines, version 2 has no lines. A
file without lines is written as version 2, so earlier versions of Keyhouse can read it.

Write access to the file is enough to make its owner forget a state. So the file has mode 0600. A
file of another user, or with write access for others, is refused. A damaged file is refused, too:
it must not count as an empty file.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from keyhouse.base.durable_files import replace_file, without_links
from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.base.user_files import user_folder
from keyhouse.client.errors import TrustError
from keyhouse.client.file_lock import locked
from keyhouse.client.memory.lines import SeenLine
from keyhouse.client.memory.states import (
    MOST_ADDRESSES,
    MOST_HEADS,
    MOST_PLACES,
    Memories,
    read_head,
    read_place,
)
from keyhouse.transparency.line import MOST_ENTRIES
from keyhouse.wire.json_decoder import UInt16, read
from keyhouse.wire.json_parser import UnreadableError

NO_MEMORY: Final = "none"
"""The text in place of a file name for a client without a memory."""

_VERSION: Final = 3  # the present format of the file
_WITHOUT_LINES: Final = 2  # the format before lines of roots
_WITHOUT_HEADS: Final = 1  # the first format
_LARGEST: Final = 8 << 20  # bytes; the largest memory, with its limits below, is smaller
_ROOT: Final = re.compile("[0-9a-f]{64}")


class MemoryUnusableError(RefusedError):
    """The memory cannot be read or written. No decision is made without the memory."""

    code = "memory-unusable"


def default_memory() -> Path | None:
    """Return the default file of the memory, as the XDG Base Directory Specification demands.

    None: neither ``XDG_STATE_HOME`` nor ``HOME`` names a directory.
    """
    folder = user_folder("XDG_STATE_HOME", ".local/state")
    return None if folder is None else folder / "known-coordinators.json"


def chosen_memory(named: str) -> "FileMemory | None":
    """Return the memory in the file ``named``. "" names the default file; "none" gives None.

    Raises ``MemoryUnusableError`` for an invalid file name. Raises this error as well if the
    default file has no directory: otherwise a rollback would stay unnoticed.
    """
    if named == NO_MEMORY:
        return None
    path = Path(named) if named else default_memory()
    if path is None:
        raise MemoryUnusableError(
            "there is no directory for the memory: neither XDG_STATE_HOME nor HOME has an absolute"
            " path",
            hint="name a file: --memory FILE; with --memory none, no command notices a rollback",
        )
    return FileMemory(path)


class _MemoryContent(msgspec.Struct, frozen=True):
    version: UInt16
    roots: dict[str, str]
    places: dict[str, tuple[str, ...]]
    heads: dict[str, tuple[str, ...]] = {}
    lines: dict[str, SeenLine] = {}


class FileMemory:
    """Stores memories in the file ``path``. A missing file means that nothing is remembered yet.

    A missing directory is created (0700). Changes lock ``<path>.lock``. Raises
    ``MemoryUnusableError`` for a path without a file name.
    """

    def __init__(self, path: Path | str) -> None:
        path = Path(path)
        if path.name in {"", ".."}:
            raise MemoryUnusableError(
                f"the memory {path} must name a file",
                hint="name a new or an existing file, or none",
            )
        self.path: Final = path
        self._decoded: tuple[bytes, Memories] = (b"", Memories())  # the bytes that were last read

    def read(self) -> Memories:
        """Return the current memories. Raises ``MemoryUnusableError``."""
        try:
            raw = self._raw()
        except FileNotFoundError:
            return Memories()
        except (OSError, ValueError) as error:
            raise self._unusable("cannot be read", error) from None
        known, memories = self._decoded
        if raw and raw == known:
            return memories
        try:
            memories = _memories(raw)
        except (_DamagedError, TrustError, UnreadableError):
            raise MemoryUnusableError(
                f"the memory {self.path} is damaged",
                hint="move the file away to start with an empty memory: earlier states are then"
                " forgotten",
            ) from None
        self._decoded = (raw, memories)
        return memories

    def change(self, step: Callable[[Memories], Memories]) -> None:
        """Replace the memories by the result of ``step``, durably.

        Raises ``MemoryUnusableError``, and the errors of ``step``. After an error nothing has
        changed.
        """
        with self._locked():
            before = self.read()
            after = step(before)
            if after == before:
                return
            try:
                replace_file(self.path, _content(after), alone=True)
            except OSError as error:
                raise self._unusable("cannot be written", error) from None

    def _raw(self) -> bytes:
        with open(self.path, "rb", opener=without_links) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise MemoryUnusableError(
                    f"the memory {self.path} is not a regular file",
                    hint="name another file: --memory FILE",
                )
            if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise MemoryUnusableError(
                    f"other users can write the memory {self.path}",
                    hint="find out who else wrote the file; check its content, then:"
                    f" chmod 600 {self.path}",
                )
            return file.read(_LARGEST + 1)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock for changes of this memory."""
        with ExitStack() as stack:
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                stack.enter_context(locked(self.path))
            except (OSError, ValueError) as error:
                raise self._unusable("cannot be locked", error) from None
            yield

    def _unusable(self, problem: str, error: OSError | ValueError) -> MemoryUnusableError:
        # A ValueError comes from a text that cannot be a file name.
        reason = os_reason(error if isinstance(error, OSError) else OSError(errno.EINVAL, ""))
        return MemoryUnusableError(
            f"the file of the memory, {self.path}, {problem}: {reason}",
            hint="name another file: --memory FILE; with --memory none, no command notices a"
            " rollback",
        )


class _DamagedError(Exception):
    """The content of the file is not a memory."""


def _memories(raw: bytes) -> Memories:
    """Return the memories in ``raw``, the content of the file.

    Raises ``_DamagedError``, ``TrustError`` or ``UnreadableError`` for a content that this module
    never writes, such as an unknown version.
    """
    decoded = read(raw, _MemoryContent) if len(raw) <= _LARGEST else None
    if decoded is None or decoded.problems:
        raise _DamagedError
    content = decoded.value
    if content.version not in {_VERSION, _WITHOUT_LINES, _WITHOUT_HEADS} or (
        (content.version == _WITHOUT_HEADS and content.heads)
        or (content.version == _VERSION) is not bool(content.lines)
    ):
        raise _DamagedError
    memories = Memories(
        content.roots,
        {root: tuple(map(read_place, places)) for root, places in content.places.items()},
        {root: tuple(map(read_head, heads)) for root, heads in content.heads.items()},
        content.lines,
    )
    if (
        len(memories.roots) > MOST_ADDRESSES
        or set(memories.roots.values()) != set(memories.places)
        or not all(map(_ROOT.fullmatch, memories.places))
        or not set(memories.heads) <= set(memories.places)
        or not set(memories.lines) <= set(memories.places)
        or not all(map(_is_sound, memories.lines.values()))
    ):
        raise _DamagedError
    for places in memories.places.values():
        rising = all(a.sequence < b.sequence and a.epoch <= b.epoch for a, b in pairwise(places))
        if not rising or not 0 < len(places) <= MOST_PLACES:
            raise _DamagedError
    for heads in memories.heads.values():
        rising = all(a.size < b.size for a, b in pairwise(heads))
        if not rising or not 0 < len(heads) <= MOST_HEADS:
            raise _DamagedError
    return memories


def _is_sound(seen: SeenLine) -> bool:
    last = _ROOT.fullmatch(seen.last) if seen.number else not seen.last
    bounds = 0 <= seen.number <= MOST_ENTRIES and 0 <= seen.accepted <= max(seen.number, 1)
    return bool(last and _ROOT.fullmatch(seen.first) and bounds)


def _content(memories: Memories) -> bytes:
    content = _MemoryContent(
        _VERSION if memories.lines else _WITHOUT_LINES,
        memories.roots,
        {root: tuple(map(str, places)) for root, places in memories.places.items()},
        {root: tuple(map(str, heads)) for root, heads in memories.heads.items()},
        memories.lines,
    )
    fields = msgspec.to_builtins(content)
    if not memories.lines:
        del fields["lines"]
    return msgspec.json.format(msgspec.json.encode(fields), indent=1) + b"\n"
