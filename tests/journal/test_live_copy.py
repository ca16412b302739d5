"""Copies of a store during writes by another process, at every moment of the copy."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from support.samples.state import DEK, STORE_ID

from keyhouse.base.errors import KeyhouseError
from keyhouse.journal import Journal
from keyhouse.journal.offline.backup import StoreBusyError, copy_live_store
from keyhouse.journal.store.sqlite import SqliteStore

# Executes each line of standard input, and answers with the place of the journal.
_WRITER = """
import asyncio, sys
from pathlib import Path
from keyhouse.journal import Journal
from keyhouse.journal.store.sqlite import SqliteStore
from keyhouse.base.secret import Secret

async def write():
    store = await SqliteStore.open(Path(sys.argv[1]))
    dek, store_id = Secret(bytes.fromhex(sys.argv[2])), bytes.fromhex(sys.argv[3])
    base = [bytes([number]) * 200_000 for number in range(8)]
    journal = await Journal.create(store, store_id=store_id, dek=dek, base=base)
    while True:
        print(journal.position.epoch, journal.position.sequence, flush=True)
        words = sys.stdin.readline().split()
        if not words:
            break
        if words[0] == "epoch":
            await journal.begin_epoch(base)
        else:
            for _ in range(int(words[1])):
                await journal.append([bytes(int(words[2]))])
    await store.close()

asyncio.run(write())
"""

_SMALL = "append 1 100"
_LARGE = "append 5 400000"  # 2 MB: the WAL is longer than a chunk; no checkpoint happens
_CHECKPOINT = "append 3 2000000"  # SQLite makes a checkpoint when the WAL has 4 MB
_FULL = "append 13 310000"  # the last record causes a checkpoint: the next restarts the WAL
_EPOCH = "epoch"

_MOMENTS = (
    "read on in journal.db",
    "read journal.db-wal",
    "read on in journal.db-wal",
    "compare",
)


class Writer:
    """A process with an open store."""

    def __init__(self, put: IO[str], get: IO[str]) -> None:
        self._put, self._get = put, get
        self.at = self._read()

    def do(self, what: str) -> None:
        """Execute ``what``; return when the effect is durable."""
        print(what, file=self._put, flush=True)
        self.at = self._read()

    def _read(self) -> tuple[int, int]:
        epoch, sequence = self._get.readline().split()
        return int(epoch), int(sequence)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir(mode=0o700)
    return tmp_path / "data"


@pytest.fixture
def writer(directory: Path) -> Iterator[Writer]:
    words = [str(directory / "journal.db"), DEK.reveal().hex(), STORE_ID.hex()]
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            yield Writer(process.stdin, process.stdout)
            process.stdin.close()
            assert process.wait() == 0
        finally:
            process.kill()


async def opened(copy: Path) -> tuple[int, int]:
    """Verify every record of a copy in the chain; return epoch and number of the last record."""
    store = await SqliteStore.open(copy / "journal.db")
    try:
        journal, _ = await Journal.open(store, store_id=STORE_ID, dek=DEK)
        return journal.position.epoch, journal.position.sequence
    finally:
        await store.close()


def once(when: str, do: Callable[[], None]) -> Callable[[str], None]:
    """Return a step that calls ``do`` once, at the first step with the name ``when``."""
    left = [when]

    def step(name: str) -> None:
        if name in left:
            left.clear()
            do()

    return step


@pytest.mark.parametrize(
    ("before", "during"),
    [
        (_SMALL, _CHECKPOINT),
        (_SMALL, _EPOCH),
        (_FULL, _SMALL),
        (_FULL, _LARGE),
        (_FULL, _EPOCH),
    ],
)
async def test_whatever_is_written_at_any_moment_the_copy_is_the_store_at_one_commit(
    writer: Writer, directory: Path, tmp_path: Path, before: str, during: str
) -> None:
    for when in _MOMENTS:
        writer.do(_EPOCH)  # makes the store small again
        writer.do(before)
        least = writer.at
        copy = tmp_path / when
        copy.mkdir()

        copy_live_store(directory, copy, step=once(when, lambda: writer.do(during)))

        assert least <= await opened(copy) <= writer.at, when


def test_a_store_that_changes_all_the_time_is_given_up_by_name(
    writer: Writer, directory: Path, tmp_path: Path
) -> None:
    (tmp_path / "copy").mkdir()
    with pytest.raises(StoreBusyError, match="2 attempts"):
        copy_live_store(
            directory,
            tmp_path / "copy",
            attempts=2,
            step=lambda name: writer.do(_EPOCH) if name == "compare" else None,
        )
    assert not list((tmp_path / "copy").iterdir())


def test_nothing_is_taken_while_a_new_store_is_put_in_place(
    directory: Path, tmp_path: Path
) -> None:
    (directory / "incoming").mkdir(mode=0o700)
    (directory / "incoming" / "plan").touch()
    (tmp_path / "copy").mkdir()
    with pytest.raises(StoreBusyError, match="replacement"):
        copy_live_store(directory, tmp_path / "copy", attempts=2)
    assert not list((tmp_path / "copy").iterdir())


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "sealed_key"])
def test_no_symbolic_link_is_followed(directory: Path, tmp_path: Path, name: str) -> None:
    (directory / "journal.db").touch(mode=0o600)
    (directory / name).unlink(missing_ok=True)
    (tmp_path / "elsewhere").touch(mode=0o600)
    (directory / name).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "copy").mkdir()
    with pytest.raises(KeyhouseError, match="symbolic link"):
        copy_live_store(directory, tmp_path / "copy")
