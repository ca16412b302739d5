"""Logs that are read from tiles of anyone: what is returned was proven."""

from collections.abc import Callable

import pytest

from keyhouse.journal.log_store import Growing
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.log_reader import PIECE, entries_after
from keyhouse.transparency.tiles import Tile
from keyhouse.transparency.tree import Frontier, leaf_hash

SIZE = 2 * PIECE + 300
ENTRIES = [b"entry %d" % number for number in range(SIZE)]


@pytest.fixture(name="log", scope="module")
def _log() -> Growing:
    log = Growing()
    log.extend(ENTRIES)
    return log


def served(log: Growing) -> Callable[[str], bytes]:
    def read(path: str) -> bytes:
        found = log.read(Tile.read(path.removeprefix("tile/")))
        assert found is not None
        return found

    return read


def frontier(size: int) -> Frontier:
    return Frontier().extended(map(leaf_hash, ENTRIES[:size]))


@pytest.mark.parametrize("known", [0, 1, 255, 256, 300, PIECE - 1, PIECE, PIECE + 1, SIZE - 1])
def test_all_that_is_new_comes_in_pieces(log: Growing, known: int) -> None:
    root = log.frontier.root
    pieces = list(entries_after(served(log), frontier(known), SIZE, root))
    assert [entry for piece in pieces for entry in piece] == ENTRIES[known:]
    assert max(map(len, pieces)) <= PIECE


def test_nothing_is_new_in_an_equal_log(log: Growing) -> None:
    assert list(entries_after(served(log), frontier(SIZE), SIZE, log.frontier.root)) == []


@pytest.mark.parametrize(("known", "place"), [(0, 0), (5, PIECE), (300, SIZE - 1)])
def test_a_piece_with_another_entry_is_not_returned(log: Growing, known: int, place: int) -> None:
    other = Growing()
    other.extend([*ENTRIES[:place], b"another", *ENTRIES[place + 1 :]])
    got: list[bytes] = []

    def read(path: str) -> bytes:
        return served(other if "entries" in path else log)(path)

    def take() -> None:
        for piece in entries_after(read, frontier(known), SIZE, log.frontier.root):
            got.extend(piece)

    with pytest.raises(LogInvalidError, match="stated root"):
        take()
    assert known + len(got) == max(place - place % PIECE, known)
    assert got == ENTRIES[known : known + len(got)]


def test_a_log_that_does_not_continue_what_is_known_is_refused(log: Growing) -> None:
    forked = Frontier().extended(map(leaf_hash, [*ENTRIES[:9], b"another"]))
    for known in (forked, Frontier().extended([leaf_hash(b"")] * SIZE), frontier(SIZE - 1)):
        size = SIZE if known.size < SIZE - 1 else known.size
        root = log.frontier.root if known.size != SIZE - 1 else frontier(5).root
        with pytest.raises(LogInvalidError):
            next(entries_after(served(log), known, size, root), None)
    with pytest.raises(LogInvalidError, match=r" 9 .* 10 "):
        next(entries_after(served(log), frontier(10), 9, frontier(9).root))
