"""The kinds of faults, and which of them a seed draws."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

__all__ = ["DRAWN", "KINDS", "Kind", "Strike", "strikes", "upgrades"]

_PAIRS: Final = 0.25
"""Part of the rounds in which two faults happen at once."""


class Kind(NamedTuple):
    """A kind of faults: ``at`` is ``machine`` or ``database``."""

    about: str
    at: str
    seconds: tuple[float, float] = (0.0, 0.0)  # how long it lasts, before it is repaired


_UP_TO: Final = (1.0, 12.0)

KINDS: Final = {
    "kill": Kind("kill -9 of a replica, which is started again", "machine"),
    "term": Kind("SIGTERM of a replica, which is started again", "machine"),
    "upgrade": Kind("SIGTERM of a replica, which is started as --upgrade-to says",
                    "machine", (5.0, 5.0)),
    "hour": Kind("the notes of replicas of an older version go, as an hour after their end",
                 "database"),
    "stop": Kind("SIGSTOP of a replica", "machine", _UP_TO),
    "reset": Kind("RST on all connections of a replica to the database", "machine"),
    "half-close": Kind("a replica's connections to the database, half closed", "machine"),
    "refuse": Kind("a replica's connections to the database, refused", "machine", _UP_TO),
    "ignore": Kind("no packet between a replica and the database: a SYN, too, is dropped",
                   "machine", _UP_TO),
    "black-hole": Kind("connections to the database are accepted, and no byte is forwarded",
                       "machine", _UP_TO),
    "drop-up": Kind("bytes from a replica to the database are lost", "machine", _UP_TO),
    "drop-down": Kind("bytes from the database to a replica are lost", "machine", _UP_TO),
    "delay": Kind("1.5 s of delay between a replica and the database, there and back",
                  "machine", _UP_TO),
    "distance": Kind("50 ms of delay, there and back", "machine", _UP_TO),
    "primary-kill": Kind("kill -9 of the primary, which is started again", "database", (0.5, 3.0)),
    "primary-restart": Kind("the primary is stopped in order and started again",
                            "database", (0.0, 2.0)),
    "primary-stop": Kind("SIGSTOP of the primary", "database", _UP_TO),
    "promote": Kind("the primary is killed, its standby promoted, a new standby built", "database"),
    # Longer than a call may take (15 s): only then it shows whether the silence is waited for.
    "vanish": Kind("the same, and the address of the old primary is silent",
                   "database", (18.0, 25.0)),
    "depose": Kind("the standby is promoted while the primary runs on, and one replica stays there",
                   "database", (2.0, 8.0)),
    "standby-kill": Kind("the standby is killed, and started again", "database", _UP_TO),
    "backends": Kind("pg_terminate_backend and pg_cancel_backend of all, in bursts",
                     "database", (0.5, 2.0)),
}  # fmt: skip
"""All kinds, by name."""

_OF_UPGRADES: Final = frozenset({"upgrade", "hour"})

DRAWN: Final = tuple(kind for kind in KINDS if kind not in _OF_UPGRADES)
"""Those that are drawn if nothing else is said. With --upgrade-to, upgrades come before them."""


class Strike(NamedTuple):
    """A fault to come: ``machine`` also chooses the replica that ``depose`` leaves behind."""

    kind: str
    machine: int
    seconds: float
    chance: float  # from 0 to 1: for choices of the kind itself


def strikes(
    seed: int, kinds: Sequence[str], machines: int, longest: float
) -> Iterator[tuple[Strike, ...]]:
    """Yield rounds of one or two faults without end: first each kind once, in any order."""
    chance = Random(seed)  # noqa: S311 - to choose what fails
    for kind in chance.sample(kinds, len(kinds)):
        yield (_strike(chance, kind, machines, longest),)
    while True:
        first = _strike(chance, chance.choice(kinds), machines, longest)
        others = [kind for kind in kinds if KINDS[kind].at != KINDS[first.kind].at]
        if chance.random() >= _PAIRS or not others:
            yield (first,)
            continue
        second = _strike(chance, chance.choice(others), machines, longest)
        yield (first, second) if KINDS[first.kind].at == "machine" else (second, first)


def upgrades(machines: int, longest: float) -> Iterator[tuple[Strike, ...]]:
    """Yield a round for each machine, in which its replica is started by another program.

    The new version does not use what the old one cannot read until an hour has passed.
    """
    seconds = min(KINDS["upgrade"].seconds[0], longest)
    for machine in range(machines):
        yield (Strike("upgrade", machine, seconds, 0.0),)
    yield (Strike("hour", 0, seconds, 0.0),)


def _strike(chance: Random, kind: str, machines: int, longest: float) -> Strike:
    seconds = min(chance.uniform(*KINDS[kind].seconds), longest)
    return Strike(kind, chance.randrange(machines), seconds, chance.random())
