"""Violations to plant in a correct history. The judge has to find each of them.

Each plant changes only some answers. It raises ``NoPlaceError`` for a too short history.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final

import msgspec
from fuzz.chaos.history import History, Log, Outcome, Record

__all__ = ["PLANTS", "NoPlaceError", "planted"]

Change = Callable[[History], None]


class NoPlaceError(Exception):
    """The history has no place for this violation."""


def planted(history: History, kind: str) -> History:
    """Return a copy of ``history`` with a violation of this ``kind``."""
    copy = msgspec.json.decode(msgspec.json.encode(history), type=History)
    PLANTS[kind](copy)
    return copy


def _changed(history: History, old: Record, **fields: Any) -> None:
    index = next(n for n, record in enumerate(history.records) if record is old)
    history.records[index] = msgspec.structs.replace(old, **fields)


def _first(found: Iterable[Any], kind: str) -> Any:
    for each in found:
        return each
    raise NoPlaceError(f"the history is too short to plant {kind}")


def _overwritten(history: History) -> list[tuple[Record, Record, list[Record]]]:
    """Return triples: a write, the next write, and all reads after the end of the next write.

    Triples of each secret are in the order of the writes.
    """
    found = []
    for key in sorted({each.key for each in history.records if each.key.startswith("secret ")}):
        done = [r for r in history.records if r.key == key and r.outcome is Outcome.DONE]
        writes = sorted((r for r in done if r.what == "write"), key=lambda each: each.ended)
        last_began = {
            value: max((r.ended for r in done if r.result == value), default=0.0)
            for value in [each.argument for each in writes]
        }
        for before, after in pairwise(writes):
            reads = [r for r in done if r.what == "read" and r.began > after.ended]
            # The writes are not concurrent, and no read after the newer write has the older value.
            if before.ended < after.began and last_began[before.argument] < after.ended and reads:
                found.append((before, after, reads))
    return found


def _stale_read(history: History) -> None:
    old, _, reads = _first(_overwritten(history), "a stale read")
    _changed(history, reads[0], result=old.argument)


def _lost_write(history: History) -> None:
    """Give the older value to all reads after the last write."""
    old, _, reads = _first(reversed(_overwritten(history)), "a lost write")
    for read in reads:
        _changed(history, read, result=old.argument)


def _failed_write(history: History) -> None:
    """Mark a write as refused, although a read has returned its value."""
    read = {(r.key, r.result) for r in history.records if r.what == "read"}
    writes = (r for r in history.records if r.what == "write" and (r.key, r.argument) in read)
    _changed(history, _first(writes, "a refused write"), outcome=Outcome.REFUSED, status=503)


def _counter(history: History) -> None:
    """Give a raise the result of an earlier raise."""
    by_key = defaultdict(list)
    for record in history.records:
        if record.what == "raise" and record.outcome is Outcome.DONE:
            by_key[record.key].append(record)
    pairs = (
        (first, later)
        for raises in by_key.values()
        for first in raises
        for later in raises
        if first.ended < later.began and later.result != first.result
    )
    first, later = _first(pairs, "a counter that falls")
    _changed(history, later, result=first.result)


def _fork(history: History) -> None:
    """Change the chain value of a place in the second answer with this place."""
    first: dict[str, Record] = {}
    for record in history.records:
        if record.place in first:
            _changed(history, record, place=_other_hex(record.place))
            return
        if record.place:
            first[record.place] = record
    raise NoPlaceError("the history is too short to plant a fork")


def _other_hex(text: str) -> str:
    """Return ``text`` with a changed last digit."""
    return text[:-1] + ("0" if text[-1] != "0" else "1")


def _stale_place(history: History) -> None:
    _repeat_oldest(history, "place")


def _stale_log(history: History) -> None:
    _repeat_oldest(history, "head")


def _repeat_oldest(history: History, field: str) -> None:
    """Give the last answer the value of the first answer, despite a newer value between them."""
    shown = [record for record in history.records if getattr(record, field)]
    if not shown:
        raise NoPlaceError(f"no answer has a {field}")
    first = min(shown, key=lambda each: each.ended)
    last = max(shown, key=lambda each: each.began)
    old = getattr(first, field)
    between = (r for r in shown if r.ended < last.began and getattr(r, field) != old)
    _first(between, f"a stale {field}")
    _changed(history, last, **{field: old})


def _log(history: History) -> None:
    """Add an answer with a changed root for the same size of the log."""
    shown = (record for record in history.records if record.head)
    record = _first(shown, "a log that forks")
    history.records.append(msgspec.structs.replace(record, head=_other_hex(record.head)))


def _limit(history: History) -> None:
    """Add as many granted activations as the limit permits in total."""
    granted = (r for r in history.records if r.what == "take" and r.result is True)
    history.records += [_first(granted, "an activation")] * history.limit


def _in_logs(history: History, change: Callable[[Log], Log]) -> None:
    if not history.logs:
        raise NoPlaceError("the history has no update logs")
    history.logs = [change(log) for log in history.logs]


def _lines(history: History) -> None:
    """Remove an acknowledged upload from the update logs."""
    writes = (r for r in history.records if r.what == "write" and r.key.startswith("secret "))
    name = _first((r for r in writes if r.outcome is Outcome.DONE), "a lost line").key[7:]
    counts = [r.outcome for r in history.records if r.what == "write" and r.key == f"secret {name}"]
    lines = {name: counts.count(Outcome.DONE) - 1}
    _in_logs(history, lambda log: msgspec.structs.replace(log, uploads=log.uploads | lines))


def _lost_in_logs(key: str, field: str) -> Change:
    def change(history: History) -> None:
        done = (r for r in history.records if (r.key, r.what) == (key, "write"))
        lost = _first((r for r in done if r.outcome is Outcome.DONE), f"a lost {key}").argument

        def left_out(log: Log) -> Log:
            kept = tuple(each for each in getattr(log, field) if each != lost)
            return msgspec.structs.replace(log, **{field: kept})

        _in_logs(history, left_out)

    return change


def _other_log(history: History) -> None:
    """Change the update log of one replica."""
    if len(history.logs) < 2:
        raise NoPlaceError("the history has fewer than two update logs")
    digest = _other_hex(history.logs[-1].digest)
    history.logs[-1] = msgspec.structs.replace(history.logs[-1], digest=digest)


PLANTS: Final[dict[str, Change]] = {
    "stale-read": _stale_read,
    "lost-write": _lost_write,
    "failed-write": _failed_write,
    "counter": _counter,
    "fork": _fork,
    "stale-place": _stale_place,
    "log": _log,
    "stale-log": _stale_log,
    "other-log": _other_log,
    "lines": _lines,
    "limit": _limit,
    "version": _lost_in_logs("version", "versions"),
    "manifest": _lost_in_logs("manifest", "manifests"),
}
"""The plants, by the name for ``--plant``."""
