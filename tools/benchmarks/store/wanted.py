"""Targets of coordinators on a database.

A database is as fast as its disk and its network. So most targets are relative to the times of the
database itself.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from benchmarks.rows import Row, at_least, at_most
from msgspec.structs import replace

__all__ = ["BARE", "COMMIT", "ONE", "ROUND_TRIP", "SQLITE", "TWO", "compared", "uploads_compared"]

BARE: Final = "PostgreSQL itself"
SQLITE: Final = "SQLite"
ONE: Final = "1 replica"
TWO: Final = "2 replicas"
THREE: Final = "3 replicas"

COMMIT: Final = "commit, p50 µs"
ROUND_TRIP: Final = "round trip, p50 µs"

_Rows = dict[str, Row]
_RATE: Final = 3000.0  # uploads per second by 8 clients
_SHARE: Final = 0.6


def compared(rows: Sequence[Row]) -> list[Row]:
    """Return ``rows`` with findings. A row without the figures for its target has no finding."""
    by_name = {row.what: row for row in rows}
    found = {}
    for row in rows:
        judge = _JUDGES.get(row.what)
        if judge is not None:
            with suppress(KeyError):  # a figure is missing
                found[row.what] = judge(row, by_name)
    return [replace(row, finding=found.get(row.what, "")) for row in rows]


def _upload_alone(row: Row, rows: _Rows) -> str:
    limit = rows[COMMIT].of(BARE) + 1000
    return f"{at_most(row.of(ONE), limit, 'µs')} (a commit and 1 ms)"


def _uploads(row: Row, _: _Rows) -> str:
    one = at_least(row.of(ONE), _RATE, f"with {ONE}")
    return f"{one}; {at_least(row.of(TWO), _SHARE * row.of(ONE), f'with {TWO}')}"


def _late(row: Row, rows: _Rows) -> str:
    return f"{at_most(row.of(TWO), 10 * rows[COMMIT].of(BARE), 'µs')} (10 commits)"


def _read_alone(row: Row, rows: _Rows) -> str:
    limit = row.of(SQLITE) + rows[ROUND_TRIP].of(BARE) + 200
    return f"{at_most(row.of(ONE), limit, 'µs')} (SQLite, a round trip and 0.2 ms)"


def _reads(row: Row, _: _Rows) -> str:
    return f"{at_least(row.of(ONE), _SHARE * row.of(SQLITE), '')} (60 % of SQLite)"


_JUDGES: Final[dict[str, Callable[[Row, _Rows], str]]] = {
    "upload alone, p50 µs": _upload_alone,
    "upload, 8 clients, /s": _uploads,
    "upload, 8 clients, p99 µs": _late,
    "read alone, p50 µs": _read_alone,
    "read, 64 clients, /s": _reads,
    "read elsewhere after an upload, p50 µs": lambda row, _: at_most(row.of(TWO), 3000, "µs"),
    "replica lost: longest gap at the other, ms": lambda row, _: at_most(row.of(TWO), 100, "ms"),
    "join: start to first answer, ms": lambda row, _: at_most(row.of(TWO), 1000, "ms"),
    "failover: first read answered, ms": lambda row, _: at_most(row.of(ONE), 1000, "ms"),
}


def uploads_compared(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of ``uploads`` with the findings for two and three replicas.

    With a standby, more replicas must not reduce the rate of uploads much. On a local disk there
    is no target, because a local disk serves only for the comparison of two versions.
    """
    return [replace(row, finding=_finding_of(row)) for row in rows]


def _finding_of(row: Row) -> str:
    share = {"8 clients, standby, /s": 0.8, "32 clients, standby, /s": 1.0}.get(row.what)
    if share is None or ONE not in row.values:
        return ""
    found = [
        at_least(row.of(column), share * row.of(ONE), f"with {column}")
        for column in (TWO, THREE)
        if column in row.values
    ]
    return "; ".join(found)
