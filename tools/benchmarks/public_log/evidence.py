"""Processor time to verify evidence files of 28 and of many entries."""

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from benchmarks.public_log.measured import limited, plain
from benchmarks.rows import Row
from support.evidence import Maker, history

from keyhouse.evidence.bundle import read_evidence, write_evidence
from keyhouse.evidence.verify import verify

__all__ = ["ENTRIES", "evidence_rows"]

ENTRIES: Final = (28, 100_000)
_PACE: Final = timedelta(milliseconds=50)  # the collateral remains valid for a million leaves
_WANTED_MS: Final = {28: 100.0, 100_000: 2_000.0, 1_000_000: 20_000.0}


def evidence_rows(entries: Sequence[int], rounds: int) -> Iterator[Row]:
    """Yield a row for each number of entries. The verification covers the whole file."""
    maker = Maker(pace=_PACE)
    for count in entries:
        said = history(maker)
        more = [said[8]] * (count - len(said))
        raw = write_evidence(maker.evidence([*said[:8], *more, *said[8:]]))
        taken = [_timed_ms(raw, maker) for _ in range(rounds)]
        what = f"evidence of {count:,} entries, {len(raw) / 1e6:.2f} MB: verify, ms"
        wanted = _WANTED_MS.get(count)
        yield plain(what, taken) if wanted is None else limited(what, taken, wanted)


def _timed_ms(raw: bytes, maker: Maker) -> float:
    begun = time.process_time()
    verify(read_evidence(raw), maker.pins())
    return (time.process_time() - begun) * 1000
