"""Which of the early appends a database has kept after a crash, behind many others."""

import pytest
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.state import DEK, STORE_ID

from keyhouse.journal import Continuation, Journal, TailLostError
from keyhouse.journal.store.protocol import KEPT_PLACES


async def test_a_change_that_survived_is_known_behind_any_number_of_others() -> None:
    """Else its writer would decide it again, so that it would take effect twice."""
    database = Database()
    one = await Journal.create(SimulatedStore(database), store_id=STORE_ID, dek=DEK, base=[b"base"])
    other, _ = await Journal.open(SimulatedStore(database), store_id=STORE_ID, dek=DEK)
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
