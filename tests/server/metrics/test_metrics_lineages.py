"""The number of lineages by state, with turns of other work during the count."""

import asyncio
from pathlib import Path

from immutables import Map
from msgspec.structs import replace
from support.living.renewal import living

from keyhouse.coordinator.core.lineages import GRACE
from keyhouse.coordinator.core.state import Lineage
from keyhouse.server.metrics.families import LINEAGES, lineage_text

NOW = 1_800_000_000_000_000


def lineage(end: int, standing: str = "") -> Lineage:
    return Lineage(
        marble_type="web", uuid="u", platform=b"", key=b"k", end=NOW + end, standing=standing
    )


async def test_each_lineage_has_one_state(tmp_path: Path) -> None:
    lineages = {
        b"1": lineage(1),
        b"2": lineage(2),
        b"3": lineage(-1),
        b"4": lineage(-GRACE - 1),  # a day ago
        b"5": lineage(1, "renew"),
        b"6": lineage(1, "revoked"),
        b"7": lineage(1, "restored"),
    }
    async with living(tmp_path) as deployed:
        state = replace(deployed.engine.view.running, lineages=Map(lineages))
    lines = (await lineage_text(state, NOW)).decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'keyhouse_lineages{state="current",type="web"} 2.0',
        'keyhouse_lineages{state="ended",type="web"} 1.0',
        'keyhouse_lineages{state="renew",type="web"} 1.0',
        'keyhouse_lineages{state="restored",type="web"} 1.0',
        'keyhouse_lineages{state="revoked",type="web"} 1.0',
    ]


async def test_other_work_has_turns_while_many_are_counted(tmp_path: Path) -> None:
    many = Map({b"%d" % number: lineage(1) for number in range(5 * LINEAGES)})
    async with living(tmp_path) as deployed:
        state = replace(deployed.engine.view.running, lineages=many)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    text = await lineage_text(state, NOW)
    task.cancel()
    assert b"10000.0" in text
    assert turns >= 5
