"""A table of figures. Each row is compared with a target."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from benchmarks.surroundings import Surroundings

__all__ = ["Figures", "Row", "at_least", "at_most", "table", "write_json"]

_WHOLE: Final = 100


class Row(msgspec.Struct, frozen=True):
    """A figure by column, with a value for each round. The name ``what`` ends in the unit.

    ``finding`` is ``met`` or ``missed`` with the target; empty without a target.
    """

    what: str
    values: dict[str, list[float]]
    finding: str = ""

    def of(self, column: str) -> float:
        """Return the median of a column."""
        return median(self.values[column])


class Figures(msgspec.Struct, frozen=True):
    """All figures with time and machine. ``seconds`` is the length of a run."""

    surroundings: Surroundings
    seconds: float
    rounds: int
    rows: list[Row]
    time: str = msgspec.field(
        default_factory=lambda: dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    )


def at_most(value: float, limit: float, unit: str) -> str:
    """Return the finding for a figure with an upper limit."""
    return f"{'met' if value <= limit else 'missed'}: at most {_number(limit)} {unit}".rstrip()


def at_least(value: float, limit: float, unit: str) -> str:
    """Return the finding for a figure with a lower limit."""
    return f"{'met' if value >= limit else 'missed'}: at least {_number(limit)} {unit}".rstrip()


def table(figures: Figures, columns: Sequence[str]) -> str:
    """Return the medians as a Markdown table, below a line about the machine."""
    machine = figures.surroundings
    heading = (
        f"{machine.processor}, {machine.processors} processors used, kernel {machine.kernel},"
        f" Python {machine.python}, data on {machine.file_system},"
        f" write and sync of 4 KiB {machine.sync_us:,.0f} µs;"
        f" medians of {figures.rounds} runs of {figures.seconds:g} s"
    )
    lines = [
        heading,
        "",
        f"| | {' | '.join(columns)} | wanted |",
        f"|---{'|---' * len(columns)}|---|",
    ]
    for row in figures.rows:
        cells = (_number(row.of(each)) if each in row.values else "" for each in columns)
        lines.append(f"| {row.what} | {' | '.join(cells)} | {row.finding} |")
    return "\n".join(lines)


def write_json(figures: msgspec.Struct, file: Path | None) -> None:
    """Write all figures to ``file``; None writes nothing."""
    if file is not None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")


def _number(value: float) -> str:
    if value >= _WHOLE or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
