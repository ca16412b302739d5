"""Measure how long evidence files of 28 and of 100,000 entries take to verify.

``PYTHONPATH=tests:. .venv/bin/python -m benchmarks.evidence``. Times are shown, never asserted.
"""

import statistics
import time
from typing import Final

from support.evidence import Maker, history

from keyhouse.evidence.bundle import read_evidence, write_evidence
from keyhouse.evidence.verify import verify

_ENTRIES: Final = (28, 100_000)
_TARGETS: Final = {28: 100, 100_000: 2_000}  # ms
_ROUNDS: Final = 5


def main() -> None:
    """Print a line for each size."""
    maker = Maker()
    for entries in _ENTRIES:
        said = history(maker)
        more = [said[8]] * (entries - len(said))
        raw = write_evidence(maker.evidence([*said[:8], *more, *said[8:]]))
        taken = [_timed(raw, maker) for _ in range(_ROUNDS)]
        print(
            f"{entries:>9,} entries, {len(raw) / 1e6:6.2f} MB: {statistics.median(taken):7,.0f} ms"
            f" (at most {_TARGETS[entries]:,} ms wanted)"
        )


def _timed(raw: bytes, maker: Maker) -> float:
    """Return the milliseconds of this process for one file."""
    begun = time.process_time()
    verify(read_evidence(raw), maker.pins())
    return 1_000 * (time.process_time() - begun)


if __name__ == "__main__":
    main()
