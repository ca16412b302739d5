"""What is wanted of coordinators on a database: of each figure, as the others allow it.

A database is as fast as its disk and its network, so most is compared with what it does itself.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.rows import Row, at_least, at_most
from msgspec.structs import replace

__all__ = ["BARE", "ONE", "SQLITE", "TWO", "compared"]

BARE: Final = "PostgreSQL itself"
SQLITE: Final = "SQLite"
ONE: Final = "1 replica"
TWO: Final = "2 replicas"

_RATE: Final = 3000.0  # uploads per second by 8 clients
_SHARE: Final = 0.6


def compared(rows: Sequence[Row]) -> list[Row]:
    """Return ``rows`` with what is wanted of them."""
    found = dict(_findings({row.what: row for row in rows}))
    return [replace(row, finding=found.get(row.what, "")) for row in rows]


def _findings(rows: dict[str, Row]) -> Iterator[tuple[str, str]]:
    commit = rows["commit, p50 µs"].of(BARE)
    alone = rows[what := "upload alone, p50 µs"].of(ONE)
    yield what, f"{at_most(alone, commit + 1000, 'µs')} (a commit and 1 ms)"
    many = rows[what := "upload, 8 clients, /s"]
    both = at_least(many.of(TWO), _SHARE * many.of(ONE), f"with {TWO}")
    yield what, f"{at_least(many.of(ONE), _RATE, f'with {ONE}')}; {both}"
    late = rows[what := "upload, 8 clients, p99 µs"].of(TWO)
    yield what, f"{at_most(late, 10 * commit, 'µs')} (10 commits)"
    read = rows[what := "read alone, p50 µs"]
    limit = read.of(SQLITE) + rows["round trip, p50 µs"].of(BARE) + 200
    yield what, f"{at_most(read.of(ONE), limit, 'µs')} (SQLite, a round trip and 0.2 ms)"
    reads = rows[what := "read, 64 clients, /s"]
    yield what, f"{at_least(reads.of(ONE), _SHARE * reads.of(SQLITE), '')} (60 % of SQLite)"
    for what, column, limit, unit in (
        ("read elsewhere after an upload, p50 µs", TWO, 3000.0, "µs"),
        ("replica lost: longest gap at the other, ms", TWO, 100.0, "ms"),
        ("join: start to first answer, ms", TWO, 1000.0, "ms"),
        ("failover: first read answered, ms", ONE, 1000.0, "ms"),
    ):
        if what in rows:
            yield what, at_most(rows[what].of(column), limit, unit)
