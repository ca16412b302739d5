"""The longest times without an acknowledged write or an answered read, for each kind of fault."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from fuzz.chaos.faults import KINDS
from fuzz.chaos.history import Fault, History, Outcome

__all__ = ["Gaps", "Row", "gaps", "rows", "table"]

TOGETHER: Final = "two at once"


class Gaps(NamedTuple):
    """Seconds from the begin of one fault until the next fault."""

    lasted: float  # from the begin of the fault to the repair
    writes: float  # longest time without an acknowledged write at any replica
    reads: float  # longest time without an answered read at any replica
    worst: float  # longest time without an acknowledged write at the worst replica
    after: float  # from the repair to the first acknowledged write at any replica
    writes_elsewhere: float | None  # rate of writes at the remaining replicas, see ``_share``
    reads_elsewhere: float | None  # rate of reads at the remaining replicas


class Row(NamedTuple):
    """All gaps of one kind of fault."""

    kind: str
    gaps: tuple[Gaps, ...]


def rows(history: History) -> list[Row]:
    """Return a row for each kind in the history, in the order of ``KINDS``. Pairs come last."""
    found: dict[str, list[Gaps]] = defaultdict(list)
    for fault, each in zip(history.faults, gaps(history), strict=True):
        found[TOGETHER if fault.others else fault.kind].append(each)
    order = [*KINDS, TOGETHER]
    return [Row(kind, tuple(found[kind])) for kind in sorted(found, key=order.index)]


def gaps(history: History) -> list[Gaps]:
    """Return the gaps around each fault."""
    probes = {what: _answered(history, what) for what in ("write", "read")}
    every = {what: sorted(t for times in probes[what] for t in times) for what in probes}
    return [_around(history, index, probes, every) for index in range(len(history.faults))]


def _answered(history: History, what: str) -> list[list[float]]:
    """Return the times of the answers to the probe at each replica."""
    found: list[list[float]] = [[] for _ in range(history.machines)]
    for record in history.records:
        if record.outcome is Outcome.DONE and record.client == f"{what} {record.replica}":
            found[record.replica].append(record.ended)
    return [sorted(times) for times in found]


def _around(
    history: History,
    index: int,
    probes: dict[str, list[list[float]]],
    every: dict[str, list[float]],
) -> Gaps:
    fault, writes, reads = history.faults[index], probes["write"], probes["read"]
    end = _next_beginning(history, fault)
    first = bisect_right(every["write"], fault.repaired)
    after = every["write"][first] if first < len(every["write"]) else end
    return Gaps(
        lasted=fault.repaired - fault.began,
        writes=_longest(every["write"], fault.began, end),
        reads=_longest(every["read"], fault.began, end),
        worst=max(_longest(times, fault.began, end) for times in writes),
        after=after - fault.repaired,
        writes_elsewhere=_share(history, fault, writes),
        reads_elsewhere=_share(history, fault, reads),
    )


def _share(history: History, fault: Fault, probes: Sequence[list[float]]) -> float | None:
    """Return the rate of answers at the remaining replicas during a fault of one replica.

    The unit is the rate of the same replicas outside all faults. None for a fault of the
    database, and for a fault of less than a second.
    """
    lasted = fault.repaired - fault.began
    others = [times for replica, times in enumerate(probes) if replica != fault.machine]
    if KINDS[fault.kind].at != "machine" or fault.others or lasted < 1 or not others:
        return None
    times = sorted(time for each in others for time in each)
    quiet = [
        (before.repaired, after.began)
        for before, after in pairwise(sorted(history.faults, key=lambda each: each.began))
        if before.repaired < after.began
    ]
    seconds = sum(ended - began for began, ended in quiet)
    answers = sum(_count(times, began, ended) for began, ended in quiet)
    if not answers:
        return None
    return (_count(times, fault.began, fault.repaired) / lasted) / (answers / seconds)


def _count(times: Sequence[float], began: float, ended: float) -> int:
    return bisect_right(times, ended) - bisect_left(times, began)


def _next_beginning(history: History, fault: Fault) -> float:
    """Return the begin of the next fault. Faults at the same time as ``fault`` do not count."""
    return min(
        (each.began for each in history.faults if each.began >= fault.repaired),
        default=history.seconds,
    )


def _longest(times: Sequence[float], began: float, ended: float) -> float:
    """Return the longest time without one of the moments ``times``.

    The search begins at the last moment before ``began``, and ends at ``ended``.
    """
    first = bisect_left(times, began)
    last = times[first - 1] if first else began
    within = [last, *times[first : bisect_right(times, ended)], ended]
    return max(after - before for before, after in pairwise(within))


def table(history: History) -> str:
    """Return the rows as a table of Markdown: median and maximum in seconds, shares in percent."""
    heads = ["Fault", "times", "lasted", "writes, any replica", "reads, any replica"]
    heads += ["writes, worst replica", "first write after the repair"]
    heads += ["writes elsewhere, %", "reads elsewhere, %"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for kind, found in rows(history):
        *seconds, writes, reads = zip(*found, strict=True)
        cells = [f"{median(values):.1f} / {max(values):.1f}" for values in seconds]
        cells += [_percent(shares) for shares in (writes, reads)]
        lines.append(f"| {' | '.join([kind, str(len(found)), *cells])} |")
    return "\n".join(lines)


def _percent(shares: Sequence[float | None]) -> str:
    """Return median and minimum of the known shares."""
    known = [share * 100 for share in shares if share is not None]
    return f"{median(known):.0f} / {min(known):.0f}" if known else ""
