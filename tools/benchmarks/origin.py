"""Costs of the line of a root at a start, and of a whole join after many starts and updates.

A start checks the line with a checkpoint, as a join does, or by all quotes. ``origin_join``
measures the whole join.

The line has no entries for starts, so starts do not lengthen it. The line has an entry for each
manifest and for each code that served.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.origin_join import ROUNDS as JOINS, STARTS, measure, table
from msgspec.structs import asdict, replace

from keyhouse import authority
from keyhouse.attestation import Platform, open_platform, read_collateral
from keyhouse.attestation.origin.rule import OriginRule
from keyhouse.coordinator import AcceptingManifest, Origin, Running
from keyhouse.coordinator.core.context import Context, moment
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.state import LineItem
from keyhouse.coordinator.origin.checks import LineAddition
from keyhouse.coordinator.prepare import prepare_manifest
from keyhouse.journal import Position, Vouched
from keyhouse.server.process.open_state import process_on
from keyhouse.server.services.line_quotes import LineQuotes
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.line import CodeEntry, encode_entry, hash_of

ROUNDS = 9
SIZES = ((1, 0), (20, 5), (1_000, 5))


def _manifest(number: int) -> bytes:
    packages = {"p": {"UniqueID": f"{number:064x}"}}
    return json.dumps({"Packages": packages, "Marbles": {"m": {"Package": "p"}}}).encode()


class _Deployment:
    """A state on a simulated machine, and the objects beside its log."""

    def __init__(self, platform: Platform, bundle: bytes) -> None:
        self.objects: dict[str, bytes] = {}
        collateral, now = read_collateral(bundle), lambda: datetime.now(UTC)

        @asynccontextmanager
        async def checks() -> AsyncIterator[QuoteChecks]:
            yield QuoteChecks(platform.root_ca, lambda _: collateral, now)

        quotes = LineQuotes(platform, checks)
        self.close = quotes.close
        self.origin = Origin(OriginRule(), quotes, claim="", version="0.1.0")
        time_now = time.time_ns() // 1000
        keys = authority.make_coordinator_keys(
            dns_names=("localhost",),
            ip_addresses=(),
            curve="P-256",
            now=moment(time_now),
            simulated=True,
        )
        accepting = AcceptingManifest(keys)
        context = Context(now=time_now, **asdict(process_on(platform)))
        made = decide(accepting, prepare_manifest(accepting, _manifest(0), now=time_now), context)
        state = evolve_all(None, made)
        assert isinstance(state, Running)  # noqa: S101 a manifest was just set
        self.state, self.time = state, time_now

    def _extend(self, made: LineAddition) -> None:
        self.objects.update((object_name(raw), raw) for raw in made.objects)
        self.state = replace(self.state, line=(*self.state.line, *made.items))

    async def grow(self, updates: int, codes: int) -> None:
        """Begin the line, add an entry for each of ``codes``, and apply ``updates``."""
        self._extend(await self.origin.creation_entries(self.state, self.time))
        own = await self.origin.code()
        for number in range(codes):
            before = hash_of(self.state.line[-1].entry).hex()
            code = replace(own, unique=f"{number:064x}")
            entry = CodeEntry(previous=before, time=self.time, code=code)
            self._extend(LineAddition((LineItem(encode_entry(entry)),)))
        for number in range(1, updates + 1):
            raw = _manifest(number)
            signature = authority.sign_manifest(self.state.keys, raw)
            after = replace(self.state, manifest=raw, signature=signature)
            made = await self.origin.update_entries(self.state, after, self.time)
            self.state = replace(after, line=self.state.line)
            self._extend(made)

    async def read(self, name: str) -> bytes | None:
        """Return an object."""
        return self.objects.get(name)

    async def seconds(self, *, checkpoint: bool) -> Sequence[float]:
        """Measure the check of a start ``ROUNDS`` times, and return the times in seconds."""
        mark = self.origin.mark(self.state)
        assert mark is not None  # noqa: S101 it has grown
        vouched = Vouched(mark, Position(1, 1, os.urandom(32)), is_own=True)
        found = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            await self.origin.require(self.state, self.read, vouched if checkpoint else None)
            found.append(time.perf_counter() - began)
        return found


async def _measure() -> None:
    print("updates  codes  bytes of the state  with a checkpoint  by all quotes")
    with TemporaryDirectory() as folder:
        machine = Path(folder)
        platform = open_platform("simulation", machine)
        bundle = (machine / "simulation" / "collateral.json").read_bytes()
        for updates, codes in SIZES:
            deployment = _Deployment(platform, bundle)
            await deployment.grow(updates, codes)
            size = sum(len(item.entry) + 130 for item in deployment.state.line)
            join = median(await deployment.seconds(checkpoint=True))
            recovery = median(await deployment.seconds(checkpoint=False))
            await deployment.close()
            print(f"{updates:7} {codes:6} {size:19} {join:17.4f}s {recovery:13.4f}s")


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=STARTS, help="recorded starts before a join")
    parser.add_argument("--rounds", type=int, default=JOINS, help="joins with and without history")
    options = parser.parse_args()
    asyncio.run(_measure())
    with TemporaryDirectory(prefix="keyhouse-bench-") as folder:
        print(table(measure(Path(folder), options.starts, options.rounds), options.starts))


if __name__ == "__main__":
    main()
