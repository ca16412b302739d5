"""Metrics of the lineages of running workloads, counted at each scrape.

The counting takes up to 50 ms for 100,000 lineages, so other work has turns in between.
"""

import asyncio
from collections import Counter
from itertools import product
from typing import Final

from keyhouse.coordinator import Running, State, policy_of
from keyhouse.coordinator.core.lineages import GRACE
from keyhouse.server.metrics.families import labelled, text_of

NAME: Final = "keyhouse_lineages"

SLICE: Final = 2000
"""Lineages that are counted without a pause: about a millisecond."""

_STATES: Final = ("current", "ended", "renew", "restored", "revoked")


async def lineage_text(state: State, now: int) -> bytes:
    """Return the number of lineages by marble type and state. ``now``: microseconds since 1970.

    The certificate of an *ended* lineage has ended, and its workload may still renew it. So the
    workload has stopped, or cannot renew.
    """
    counts: Counter[tuple[str, str]] = Counter()
    if isinstance(state, Running):
        marbles = policy_of(state.manifest).manifest.marbles
        renewable = sorted(name for name, marble in marbles.items() if marble.renewal is not None)
        counts.update(dict.fromkeys(product(renewable, _STATES), 0))
        for number, lineage in enumerate(state.lineages.values(), 1):
            if now <= lineage.end + GRACE:
                found = lineage.standing or ("ended" if now > lineage.end else "current")
                counts[lineage.marble_type, found] += 1
            if number % SLICE == 0:
                await asyncio.sleep(0)
    return await text_of([labelled(NAME, counts.items())])
