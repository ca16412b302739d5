"""Judge a history: find answers that a single coordinator, with one request at a time, cannot give.

1. Registers (secrets, the manifest), counters and limits are linearizable. A write with unknown
   outcome may have happened at any later time, or never. A refused write never happens.
2. A place in the journal has one chain value. No answer is older than an answer that ended before
   the request began.
3. Rule 2 also holds for the sizes and roots of the transparency log.
4. All replicas end with the same update log. The log has each acknowledged change once, and no
   refused change. It may have changes with unknown outcome.
5. At the end, without faults, each replica serves.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from fuzz.chaos.history import History, Log, Outcome, Record
from support.replicas.linearizability import (
    REFUSED,
    UNKNOWN,
    Call,
    Object,
    counted_up_to,
    highest,
    register,
    settled,
    violation,
)

from keyhouse.client.memory.states import log_head_in
from keyhouse.wire.headers import place_in

__all__ = ["Violation", "calls_of", "kinds_of", "violations"]


class Violation(NamedTuple):
    """An impossible answer. ``kind`` is a word for programs, ``text`` is for people."""

    kind: str
    text: str


def violations(history: History) -> list[Violation]:
    """Return the violations in ``history``."""
    judges: list[Callable[[History], Iterator[Violation]]]
    judges = [_refused_writes, _objects, _places, _heads, _logs, _versions, _manifests, _away]
    return [found for judge in judges for found in judge(history)]


def kinds_of(history: History) -> Callable[[str], Object]:
    """Return a function from the key of an object to its kind, for ``violation``."""

    def kind(key: str) -> Object:
        match key.partition(" ")[0]:
            case "counter":
                return highest()
            case "limit":
                return counted_up_to(history.limit)
            case "manifest":
                return register(history.manifest)
            case _:
                return register()

    return kind


_OBJECTS: Final = ("secret", "counter", "limit", "manifest")


def calls_of(history: History) -> dict[str, list[Call]]:
    """Return the calls of each object. Except for limits, ``settled`` decides unknown outcomes."""
    found: dict[str, list[Call]] = defaultdict(list)
    for record in history.records:
        if record.key.partition(" ")[0] in _OBJECTS:
            found[record.key].append(_call(record))
    return {
        key: calls if key.startswith("limit ") else settled(calls) for key, calls in found.items()
    }


def _call(record: Record) -> Call:
    result, ended = {
        Outcome.DONE: (record.result, record.ended),
        Outcome.REFUSED: (REFUSED, record.ended),
        Outcome.UNKNOWN: (UNKNOWN, math.inf),
    }[record.outcome]
    return Call(record.what, record.argument, result, record.began, ended)


def _refused_writes(history: History) -> Iterator[Violation]:
    """Find reads of values from refused writes."""
    refused = {
        (record.key, record.argument): record
        for record in history.records
        if record.what == "write" and record.outcome is Outcome.REFUSED
    }
    for record in history.records:
        if record.what == "read" and record.outcome is Outcome.DONE:
            write = refused.get((record.key, record.result))
            if write is not None and record.result is not None:
                yield Violation(
                    "refused",
                    f"{record.key}: a read returned the value of a refused write:\n"
                    f"{write}\n{record}",
                )


def _objects(history: History) -> Iterator[Violation]:
    kinds = kinds_of(history)
    for key, calls in sorted(calls_of(history).items()):
        text = violation({key: calls}, kinds)
        if text:
            yield Violation(key.partition(" ")[0], text)


def _places(history: History) -> Iterator[Violation]:
    chains: dict[tuple[int, int], str] = {}
    answers = list[_Seen]()
    for record in history.records:
        place = place_in(record.place)
        if place is None:
            continue
        at = (place.epoch, place.sequence)
        if chains.setdefault(at, place.chain) != place.chain:
            yield Violation(
                "fork", f"place {at} has chain {chains[at]} and a second chain:\n{record}"
            )
        answers.append(_Seen(at, record))
    yield from _older("place", answers)


def _heads(history: History) -> Iterator[Violation]:
    roots: dict[int, str] = {}
    answers = list[_Seen]()
    for record in history.records:
        head = log_head_in(record.head)
        if head is None:
            continue
        if roots.setdefault(head.size, head.root) != head.root:
            yield Violation(
                "log",
                f"the log of size {head.size} has root {roots[head.size]} and a second root:\n"
                f"{record}",
            )
        answers.append(_Seen((head.size,), record))
    yield from _older("log", answers)


class _Seen(NamedTuple):
    """An answer with its position in the journal or in the transparency log."""

    at: tuple[int, ...]
    record: Record


def _older(kind: str, answers: Sequence[_Seen]) -> Iterator[Violation]:
    """Find each answer that is older than an answer before the request."""
    by_end = sorted(answers, key=lambda each: each.record.ended)
    newest: _Seen | None = None
    index = 0
    for answer in sorted(answers, key=lambda each: each.record.began):
        while index < len(by_end) and by_end[index].record.ended < answer.record.began:
            if newest is None or by_end[index].at > newest.at:
                newest = by_end[index]
            index += 1
        if newest is not None and answer.at < newest.at:
            yield Violation(
                kind,
                f"an answer at {answer.at} follows an answer at {newest.at}:\n"
                f"{newest.record}\n{answer.record}",
            )


def _logs(history: History) -> Iterator[Violation]:
    for log in history.logs[1:]:
        if (log.lines, log.digest) != (history.logs[0].lines, history.logs[0].digest):
            yield Violation("log", f"replicas end with different update logs: {history.logs}")
            return
    if not history.logs:
        return
    tried: dict[str, Counter[Outcome]] = defaultdict(Counter)
    for record in history.records:
        if record.what == "write" and record.key.startswith("secret "):
            tried[record.key.partition(" ")[2]][record.outcome] += 1
    for name, counts in tried.items():
        least, lines = counts[Outcome.DONE], history.logs[0].uploads.get(name, 0)
        most = least + counts[Outcome.UNKNOWN]
        if not least <= lines <= most:
            yield Violation(
                "lines", f"{name}: the update log has {lines} uploads, expected {least} to {most}"
            )


def _versions(history: History) -> Iterator[Violation]:
    yield from _each_once(history, "version", lambda log: log.versions)
    for log in history.logs[:1]:
        if list(log.versions) != sorted(set(log.versions)):
            yield Violation("version", f"security versions do not rise: {log.versions}")


def _manifests(history: History) -> Iterator[Violation]:
    yield from _each_once(history, "manifest", lambda log: log.manifests)


def _each_once(
    history: History, key: str, logged: Callable[[Log], Sequence[str | int]]
) -> Iterator[Violation]:
    """Find acknowledged writes of ``key`` that are not once in the update log, and refused writes.

    A write with unknown outcome may be in the log once.
    """
    for log in history.logs[:1]:
        times = Counter(logged(log))
        for record in history.records:
            if record.key != key or record.what != "write":
                continue
            found = times[record.argument] if isinstance(record.argument, str | int) else 0
            fits = {
                Outcome.DONE: found == 1,
                Outcome.REFUSED: found == 0,
                Outcome.UNKNOWN: found <= 1,
            }
            if not fits[record.outcome]:
                yield Violation(key, f"the update log has this write {found} times:\n{record}")


def _away(history: History) -> Iterator[Violation]:
    for replica in history.away:
        yield Violation("away", f"replica {replica} did not serve again after the last fault")
