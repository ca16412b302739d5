"""State directories with changed files.

Oracle: a start has one of these results, and no other:

- the exact state
- an earlier state, if the sealed key knows no later state. Clients notice this rollback
- recovery mode, if the sealed key cannot be unsealed
- a refusal with a ``KeyhouseError``
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import ClassVar, Final

import msgspec
from fuzz.mutations import flipped, mutated
from fuzz.target import FindingError, Target
from support.samples.state import DEK, open_storage

from keyhouse.base.errors import KeyhouseError
from keyhouse.journal import Fresh, Locked, Opened, Replay

__all__ = ["JournalTarget"]

_EVENTS: Final = tuple(b"event %d of this journal" % number for number in range(12))
_SEALED_AT: Final = 6  # events that the sealed key of the crashed store covers
_BASE: Final = b"the base"
_PAGE: Final = 4096
_FILES: Final = ("sealed_key", "recovery_index", "journal.db", "journal.db-wal")


class _Case(msgspec.Struct, frozen=True, array_like=True):
    files: dict[str, bytes]
    least: int  # smallest permitted number of events


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Case)


class JournalTarget(Target):
    """Changed, cut, swapped and older files of a store after a crash or a stop."""

    name: ClassVar[str] = "journal"
    about: ClassVar[str] = "changed files of a state directory"

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="keyhouse-fuzz-"))
        self._loop = asyncio.new_event_loop()
        self._crashed, self._stopped, self._older = self._loop.run_until_complete(
            _written(self._folder / "ours", b"\x01" * 16)
        )
        self._foreign = self._loop.run_until_complete(
            _written(self._folder / "theirs", b"\x02" * 16)
        )[1]

    def draw(self, chance: Random) -> bytes:
        """Return a directory with one to three changes."""
        whole, least = chance.choice(((self._crashed, _SEALED_AT), (self._stopped, len(_EVENTS))))
        files = dict(whole)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            name = chance.choice([each for each in _FILES if each in files])
            files[name] = self._changed(name, files[name], chance)
        if chance.random() < 0.05:
            del files[chance.choice(list(files))]
        if files.get("sealed_key") != whole["sealed_key"]:
            least = 0
        return _encode(_Case(files, least))

    def judge(self, case: bytes) -> str:
        """Open the directory and load its state."""
        given = _decoder.decode(case)
        place = self._folder / "case"
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(place)
        place.mkdir(mode=0o700)
        for name, content in given.files.items():
            file = place / name
            file.touch(mode=0o600)
            file.write_bytes(content)
        return self._loop.run_until_complete(_outcome(place, given.least))

    def close(self) -> None:
        """Remove the directories."""
        self._loop.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _changed(self, name: str, content: bytes, chance: Random) -> bytes:
        how = chance.random()
        if how < 0.3:
            return flipped(content, chance)
        if how < 0.5:
            return mutated(content, chance)
        if how < 0.7 and len(content) > 2 * _PAGE:
            return _with_other_page(content, chance)
        if how < 0.85:
            return self._foreign.get(name, b"")
        return self._older.get(name, b"")


async def _written(path: Path, store_id: bytes) -> tuple[Mapping[str, bytes], ...]:
    """Return the files after a crash, after a stop, and after the third event."""
    storage = await open_storage(path)
    journal = await storage.establish(
        store_id=store_id, dek=DEK, base=[_BASE], policy="ProductKey", recovery_index=b"an index"
    )
    older = {}
    for number, event in enumerate(_EVENTS):
        await journal.append([event])
        if number == 2:
            older = _files(path)
        if number + 1 == _SEALED_AT:
            await storage.write_head()
    crashed = _files(path)
    await storage.write_head()
    await storage.close()
    return crashed, _files(path), older


def _files(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in _FILES if (path / name).exists()}


def _with_other_page(content: bytes, chance: Random) -> bytes:
    """Replace a page by a different page, by zeros or by random bytes."""
    first, second = (chance.randrange(len(content) // _PAGE) * _PAGE for _ in range(2))
    page = chance.choice((content[second : second + _PAGE], bytes(_PAGE), chance.randbytes(_PAGE)))
    return content[:first] + page + content[first + _PAGE :]


async def _outcome(place: Path, least: int) -> str:
    try:
        storage = await open_storage(place)
    except KeyhouseError as error:
        return f"refused: {error.code}"
    try:
        found = await storage.load()
        if isinstance(found, Locked):
            return "recovery mode"
        if isinstance(found, Fresh):
            raise FindingError("a damaged directory was treated as a fresh directory")
        return _judged(found, least)
    except KeyhouseError as error:
        return f"refused: {error.code}"
    finally:
        await storage.close()


def _judged(found: Opened, least: int) -> str:
    count = len(found.replay.events)
    if found.replay != Replay((_BASE,), _EVENTS[:count]):
        raise FindingError("the loaded state differs from the written state")
    if count < least:
        raise FindingError(f"{count} events were loaded; the sealed key requires {least}")
    return "exact" if count == len(_EVENTS) else "a tail is missing"
