"""What the console reads of a log: each entry once, proven, in steps."""

import asyncio
from collections import Counter

import pytest

from keyhouse.client import CallRefusedError, LogCheckpoint, TrustError
from keyhouse.client.errors import CallUnknownError
from keyhouse.console.public_log import STEP, LoadedLog, LogPart
from keyhouse.journal.log_store import Growing
from keyhouse.transparency.leaf import RecoveredLeaf, SecretsUploadedLeaf, encode_leaf
from keyhouse.transparency.tiles import WIDTH, Tile

UPLOADED = encode_leaf(SecretsUploadedLeaf(time=1, uploads=()))
UNKNOWN = b'{"kind":"of-tomorrow","time":1,"v":1}'


def recovered(number: int) -> bytes:
    return encode_leaf(RecoveredLeaf(time=number, at="", holders=()))


class Log:
    """A log in memory. ``asked``: how often each part was; ``forged``: bundles of another log."""

    def __init__(self, size: int, origin: str = "a.example") -> None:
        self.origin = origin
        self.growing = Growing()
        self.asked: Counter[str] = Counter()
        self.forged: dict[str, bytes] = {}
        self.grow(size)

    def grow(self, by: int) -> None:
        """Add uploads, but at each hundredth place a recovery with the place as its time."""
        here = range(self.growing.size, self.growing.size + by)
        self.growing.extend(UPLOADED if at % 100 else recovered(at) for at in here)

    async def log_checkpoint(self) -> LogCheckpoint:
        frontier = self.growing.frontier
        return LogCheckpoint(self.origin, frontier.size, frontier.root, b"", "")

    async def log_part(self, path: str) -> bytes:
        self.asked[path] += 1
        found = self.forged.get(path) or self.growing.read(Tile.read(path.removeprefix("tile/")))
        assert found is not None
        return found

    def entries_asked(self) -> Counter[str]:
        """Return how often each bundle was asked for since the last call."""
        asked, self.asked = self.asked, Counter()
        return Counter({path: times for path, times in asked.items() if "entries" in path})


def times(part: LogPart) -> list[int]:
    return [leaf.time for leaf in part.leaves]


async def test_a_small_log_is_read_whole_and_only_its_end_again() -> None:
    log, known = Log(3 * WIDTH + 1), LoadedLog()

    part = await known.newest(log)
    assert (part.before, part.size, part.unknown) == (0, 769, 0)
    assert times(part) == [700, 600, 500, 400, 300, 200, 100, 0]
    assert len(log.entries_asked()) == 4
    assert await known.newest(log) == part
    assert not log.entries_asked()
    log.grow(32)
    assert times(await known.newest(log))[:2] == [800, 700]
    assert list(log.entries_asked().values()) == [1]
    await known.older(log)  # there is no more
    assert (await known.newest(log)).before == 0


async def test_a_large_log_is_read_in_steps_each_entry_once() -> None:
    size = 2 * STEP + 2 * WIDTH + 7
    log, known = Log(size), LoadedLog()

    part = await known.newest(log)
    begin = -(-size // WIDTH) * WIDTH - STEP
    assert (part.before, part.size) == (begin, size)
    assert times(part) == [at for at in range(size - 1, begin - 1, -1) if at % 100 == 0]
    asked = log.entries_asked()
    for before in (begin - STEP, 0):
        await known.older(log)
        part = await known.newest(log)
        assert (part.before, part.size) == (max(before, 0), size)
        assert times(part)[-1] == -(-part.before // 100) * 100
        asked += log.entries_asked()
    assert set(asked.values()) == {1}
    assert len(asked) == -(-size // WIDTH)


async def test_after_a_long_absence_the_newest_part_is_read_and_no_more() -> None:
    log, known = Log(5), LoadedLog()
    await known.newest(log)
    log.grow(STEP + WIDTH)

    part = await known.newest(log)
    assert (part.before, part.size) == (2 * WIDTH, STEP + WIDTH + 5)


async def test_the_log_of_another_deployment_takes_the_place() -> None:
    known = LoadedLog()
    await known.newest(Log(500))

    assert times(await known.newest(Log(150, "b.example"))) == [100, 0]


async def test_pages_that_load_at_once_read_each_entry_once() -> None:
    log, known = Log(WIDTH), LoadedLog()

    parts = await asyncio.gather(*(known.newest(log) for _ in range(3)))
    assert parts[0] == parts[1] == parts[2]
    assert set(log.entries_asked().values()) == {1}


async def test_entries_of_another_log_are_not_believed_and_not_kept() -> None:
    size = STEP + 2 * WIDTH
    log, known = Log(size), LoadedLog()
    other = Log(0)
    other.growing.extend([recovered(7)] * size)
    first, last = (f"tile/{Tile(-1, index).path}" for index in (0, size // WIDTH - 1))
    for path in (first, last):
        log.forged[path] = await other.log_part(path)

    with pytest.raises(TrustError, match="does not verify"):
        await known.newest(log)
    del log.forged[last]
    part = await known.newest(log)
    with pytest.raises(TrustError, match="does not verify"):
        await known.older(log)
    assert await known.newest(log) == part
    log.forged.clear()
    await known.older(log)
    assert times(await known.newest(log))[-1] == 0


async def test_a_log_that_has_lost_entries_or_has_others_is_a_reason_for_distrust() -> None:
    known = LoadedLog()
    await known.newest(Log(300))

    with pytest.raises(TrustError, match=r"299 .*300 "):
        await known.newest(Log(299))
    forked = Log(0)
    forked.growing.extend([UPLOADED] * 301)
    with pytest.raises(TrustError, match="does not lead"):
        await known.newest(forked)
    assert times(await known.newest(Log(301))) == [300, 200, 100, 0]


async def test_entries_of_a_newer_version_are_counted() -> None:
    log = Log(101)
    log.growing.extend([UNKNOWN, UNKNOWN, recovered(200)])

    part = await LoadedLog().newest(log)
    assert (times(part), part.unknown) == ([200, 100, 0], 2)


async def test_a_version_without_a_log_has_no_entries() -> None:
    class Older(Log):
        answer: Exception = CallUnknownError("the coordinator does not know this call")

        async def log_checkpoint(self) -> LogCheckpoint:
            raise self.answer

    log = Older(0)
    assert await LoadedLog().newest(log) == LogPart()
    log.answer = CallRefusedError(404, "not here")
    assert await LoadedLog().newest(log) == LogPart()
    log.answer = CallRefusedError(409, "not now")
    with pytest.raises(CallRefusedError):
        await LoadedLog().newest(log)
