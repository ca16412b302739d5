"""The judge of histories: what could have been passes, and each planted violation is found."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from support.replicas.linearizability import (
    UNKNOWN,
    Call,
    History,
    counted_up_to,
    highest,
    permission,
    register,
    settled,
    violation,
)
from support.replicas.porcupine import Porcupine, porcupine_built

KINDS = {"value": register(), "counter": highest(), "limit": counted_up_to(2), "may": permission()}
NEVER = float("inf")


def at(
    began: float, ended: float, what: str, argument: object = None, *, gives: object = None
) -> Call:
    return Call(what, argument, gives, began, ended)


def told(kind: str, *calls: Call) -> str:
    return violation({kind: calls}, KINDS.__getitem__)


HOLDS: dict[str, tuple[Any, ...]] = {
    "one after the other": ("value", at(1, 2, "write", 1), at(3, 4, "read", gives=1)),
    "a read beside a write may come before it": (
        "value",
        at(1, 9, "write", 1),
        at(2, 3, "read", gives=1),
        at(4, 5, "read", gives=1),
    ),
    "a write that was not answered may have happened": (
        "value",
        at(1, NEVER, "write", 1, gives=UNKNOWN),
        at(2, 3, "read"),
        at(4, 5, "read", gives=1),
    ),
    "or may never happen": (
        "value",
        at(1, NEVER, "write", 1, gives=UNKNOWN),
        at(2, 3, "write", 2),
        at(4, 5, "read", gives=2),
    ),
    "raises beside each other": (
        "counter",
        at(1, 9, "raise", 5, gives=3),
        at(2, 8, "raise", 3, gives=0),
        at(3, 10, "raise", 4, gives=5),
        at(11, 12, "read", gives=5),
    ),
    "the last one is taken": (
        "limit",
        *(at(n, n + 0.5, "take", gives=True) for n in (1, 2)),
        at(3, 4, "take", gives=False),
        at(5, 6, "read", gives=2),
    ),
    "used until it is revoked": (
        "may",
        at(1, 5, "use", gives=True),
        at(2, 4, "revoke"),
        at(5, 6, "use", gives=False),
        at(7, 8, "give"),
        at(9, 10, "use", gives=True),
    ),
}

VIOLATIONS: dict[str, tuple[Any, ...]] = {
    "stale read": (
        "value",
        at(1, 2, "write", 1),
        at(3, 4, "write", 2),
        at(5, 6, "read", gives=1),
    ),
    "lost write": ("value", at(1, 2, "write", 1), at(3, 4, "read")),
    "a read after a newer one": (
        "value",
        at(1, 9, "write", 1),
        at(2, 3, "read", gives=1),
        at(4, 5, "read"),
    ),
    "a value that nobody wrote": ("value", at(1, 2, "read", gives=7)),
    "a refused change that happened": (
        "value",
        at(1, 2, "write", 1),
        at(3, 4, "read", gives=2),
    ),
    "double grant": ("limit", *(at(n, 9, "take", gives=True) for n in (1, 2, 3))),
    "refused before the limit": (
        "limit",
        at(1, 2, "take", gives=True),
        at(3, 4, "take", gives=False),
    ),
    "two raises from the same value": (
        "counter",
        at(1, 5, "raise", 3, gives=0),
        at(2, 6, "raise", 4, gives=0),
    ),
    "a counter that falls": (
        "counter",
        at(1, 2, "raise", 3, gives=0),
        at(3, 4, "read", gives=0),
    ),
    "used after it was revoked": (
        "may",
        at(1, 2, "revoke"),
        at(3, 4, "use", gives=True),
    ),
}


@pytest.mark.parametrize("name", HOLDS)
def test_a_history_that_one_object_could_have_had_passes(name: str) -> None:
    assert told(*HOLDS[name]) == ""


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_is_found(name: str) -> None:
    key, *_ = VIOLATIONS[name]
    assert told(*VIOLATIONS[name]).startswith(f"{key}: not linearizable near call")


def recorded(seed: int, stale: int = -1) -> History:
    """Return what eight clients of one true register saw; the answer ``stale`` is an older one."""
    chance = random.Random(seed)  # noqa: S311 - the same histories each time
    history, values, pending, reads = History(), [0], dict[int, tuple[object, int | None]](), 0
    for number in range(1, 4000):
        client = chance.randrange(8)
        if client not in pending:
            value = number if chance.random() < 0.3 else None
            what = "read" if value is None else "write"
            pending[client] = (history.begin("value", what, value), value)
            continue
        end, value = pending.pop(client)
        assert callable(end)
        if value is not None:
            values.append(value)
            end(None)
            continue
        reads += 1
        end(values[-20] if reads == stale else values[-1])
    return history


def test_a_change_of_unknown_outcome_that_was_seen_took_effect_before_that() -> None:
    seen, unseen = (at(1, NEVER, "write", value, gives=UNKNOWN) for value in (1, 2))
    reads = [at(2, 5, "read", gives=1), at(3, 4, "read", gives=1)]
    assert settled([seen, unseen, *reads]) == [seen._replace(ended=4), *reads]


@pytest.mark.parametrize("name", [*HOLDS, *VIOLATIONS])
def test_settled_histories_are_judged_the_same(name: str) -> None:
    key, *calls = (HOLDS | VIOLATIONS)[name]
    if key in {"value", "counter"}:
        assert bool(told(key, *settled(calls))) == bool(told(key, *calls))


@pytest.fixture(name="porcupine", scope="module")
def _porcupine() -> Iterator[Porcupine]:
    with porcupine_built() as porcupine:
        yield porcupine


@pytest.mark.parametrize(("cases", "told"), [(HOLDS, "Ok"), (VIOLATIONS, "Illegal")])
def test_porcupine_says_the_same(
    porcupine: Porcupine, cases: dict[str, tuple[Any, ...]], told: str
) -> None:
    histories = {name: calls for name, (_, *calls) in cases.items()}
    opinion = porcupine.opinion(histories, lambda name: KINDS[cases[name][0]])
    assert opinion == dict.fromkeys(cases, told)


def test_porcupine_says_the_same_of_long_histories(porcupine: Porcupine) -> None:
    stale = {"no": -1, "yes": 700}
    histories = {name: recorded(1, number).calls["value"] for name, number in stale.items()}
    opinion = porcupine.opinion(histories, lambda _: register(0))
    assert opinion == {"no": "Ok", "yes": "Illegal"}


def test_long_histories_of_many_clients_are_judged() -> None:
    kinds = {"value": register(0)}.__getitem__
    for seed in range(3):
        assert violation(recorded(seed).calls, kinds) == ""
        assert "near call" in violation(recorded(seed, stale=700).calls, kinds)
