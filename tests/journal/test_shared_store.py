"""Journals of several writers over one store, with network failures and failovers."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from support.samples.simulated_store import Database, Fault, SimulatedStore
from support.samples.state import DEK, STORE_ID

from keyhouse.base.errors import KeyhouseError
from keyhouse.journal import (
    Continuation,
    Journal,
    NotDurableError,
    OutcomeLostError,
    OutcomeUnknownError,
    Replay,
    RolledBackError,
    StoreConflictError,
    StoreDamagedError,
    TailLostError,
)
from keyhouse.journal.store.protocol import KEPT_PLACES


async def joined(database: Database) -> tuple[Journal, SimulatedStore]:
    """Return the journal and the store of a new writer."""
    store = SimulatedStore(database)
    if database.stored.start is None:
        return await Journal.create(store, store_id=STORE_ID, dek=DEK, base=[b"base"]), store
    return (await Journal.open(store, store_id=STORE_ID, dek=DEK))[0], store


async def content(database: Database) -> Replay:
    store = SimulatedStore(database)
    try:
        return (await Journal.open(store, store_id=STORE_ID, dek=DEK))[1]
    finally:
        await store.close()


async def test_none_appends_behind_a_record_that_it_has_not_seen() -> None:
    """A failover lost the tail. Another writer then wrote different records with these numbers."""
    database = Database()
    (one, _), (other, _) = await joined(database), await joined(database)
    await one.append([b"lost"])
    database.lose_tail(1)
    await other.append([b"in its place"])
    with pytest.raises(StoreConflictError):
        await one.append([b"behind what it has not seen"])
    with pytest.raises(StoreConflictError):
        await one.begin_epoch([b"over what it has not seen"])
    assert await content(database) == Replay((b"base",), (b"in its place",))


async def test_a_fork_of_equal_length_is_noticed() -> None:
    database = Database()
    (one, _), (other, _) = await joined(database), await joined(database)
    await one.append([b"lost"])
    database.lose_tail(1)
    with pytest.raises(RolledBackError, match=r"1\.1 .*1\.2"):
        await one.catch_up()
    await other.append([b"in its place"])
    with pytest.raises(RolledBackError, match="record 2 "):
        await one.catch_up()


async def test_a_fork_that_has_grown_is_no_damage() -> None:
    database = Database()
    (one, _), (other, _) = await joined(database), await joined(database)
    await one.append([b"lost"])
    database.lose_tail(1)
    await other.append([b"in its place", b"and more"])
    with pytest.raises(RolledBackError, match="record 2 "):
        await one.catch_up()
    assert one.position.sequence == 2


async def test_records_that_are_damaged_are_no_fork() -> None:
    database = Database()
    (one, _), (other, _) = await joined(database), await joined(database)
    await other.append([b"first", b"second"])
    at = database.stored
    database.history.append(at._replace(records=(*at.records[:2], at.records[1])))
    with pytest.raises(StoreDamagedError, match=r"record 2 .* 3 "):
        await one.catch_up()


async def test_a_head_that_is_not_that_of_the_records_is_refused() -> None:
    database = Database()
    one, _ = await joined(database)
    at = database.stored
    further = await one.append([b"first"])
    database.history.append(at._replace(head=further))
    with pytest.raises(StoreDamagedError, match="last record"):
        await content(database)


Write = Callable[[Journal], Awaitable[object]]
WRITES: dict[str, Write] = {
    "append": lambda journal: journal.append([b"late"]),
    "epoch": lambda journal: journal.begin_epoch([b"late base"]),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("wins", [False, True])
async def test_what_has_not_happened_never_happens_later(
    write: Write,
    wins: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    """The connection is lost while the server still processes the commit."""
    database = Database()
    one, store = await joined(database)
    store.faults.append(Fault.LATE)
    store.late_win = wins
    before = await content(database)
    if wins:
        await write(one)
    else:
        with pytest.raises(NotDurableError):
            await write(one)
    store.arrive_late()
    assert (await content(database) != before) is wins
    await one.append([b"next"])
    assert (await content(database)).events[-1] == b"next"


async def _behind(other: Journal) -> None:
    await other.catch_up()
    await other.append([b"theirs"])


async def _epoch_behind(other: Journal) -> None:
    await other.catch_up()
    await other.begin_epoch([b"theirs"])


async def _first(other: Journal) -> None:
    await other.append([b"theirs", b"more"])


async def _epoch_first(other: Journal) -> None:
    await other.begin_epoch([b"theirs"])


async def _epoch_further_on(other: Journal) -> None:
    await _behind(other)
    await other.begin_epoch([b"theirs"])


async def _epoch_in_its_place(other: Journal) -> None:
    await other.append([b"theirs"])
    await other.begin_epoch([b"theirs"])


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize(
    ("fault", "meanwhile", "raised"),
    [
        (Fault.LOST_ANSWER, _behind, None),
        (Fault.LOST_ANSWER, _epoch_behind, None),
        (Fault.LOST_ANSWER, _epoch_further_on, OutcomeLostError),
        (Fault.LOST_REQUEST, _first, StoreConflictError),
        (Fault.LOST_REQUEST, _epoch_first, StoreConflictError),
        (Fault.LOST_REQUEST, _epoch_in_its_place, StoreConflictError),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_an_outage_ends_with_the_truth_whatever_others_wrote(
    write: Write,
    fault: Fault,
    meanwhile: Callable[[Journal], Awaitable[None]],
    raised: type[KeyhouseError] | None,
) -> None:
    database = Database()
    (one, store), (other, _) = await joined(database), await joined(database)
    store.faults.append(fault)
    store.breaks = True
    with pytest.raises(OutcomeUnknownError):
        await write(one)
    await meanwhile(other)
    with pytest.raises(OutcomeUnknownError):
        await one.settle()
    store.down = store.breaks = False
    if raised is None:
        await one.settle()
    else:
        with pytest.raises(raised):
            await one.settle()
    await one.catch_up()
    assert one.position == other.position
    await one.append([b"next"])
    assert await other.catch_up() == Continuation((b"next",))


async def test_a_write_that_was_cancelled_is_settled_as_well() -> None:
    database = Database()
    one, store = await joined(database)
    store.hold()
    writing = asyncio.ensure_future(one.append([b"cancelled"]))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait([writing])
    with pytest.raises(OutcomeUnknownError):
        await one.append([b"not before it is settled"])
    with pytest.raises(NotDurableError):
        await one.settle()
    store.let_pass()
    await one.append([b"next"])
    assert (await content(database)).events == (b"next",)


async def test_a_change_that_survived_a_crash_is_known_behind_any_number_of_others() -> None:
    """Otherwise the writer would decide again, and the change would take effect twice."""
    database = Database()
    one, _ = await joined(database)
    other, _ = await joined(database)
    kept = await one.append([b"kept"], early=True)
    lost = await one.append([b"lost"], early=True)
    database.crash(survive=1)
    await other.catch_up()
    others = [b"%d" % number for number in range(3 * KEPT_PLACES)]
    await other.append(others)
    with pytest.raises(TailLostError):
        await one.catch_up()
    found = await one.catch_up()
    assert isinstance(found, Continuation)
    assert found.events == (b"kept", *others)
    assert one.trail.at(kept.sequence) == kept
    assert one.trail.at(lost.sequence) != lost
    await other.append([b"next"])
    await one.catch_up()
    assert one.trail.at(kept.sequence) is None
