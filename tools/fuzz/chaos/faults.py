"""The kinds of faults, and the sequence of faults for a seed."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

__all__ = ["DRAWN", "KINDS", "Kind", "Strike", "strikes", "upgrades"]

_PAIRS: Final = 0.25
"""Share of the rounds with two faults at once."""


class Kind(NamedTuple):
    """A kind of faults: ``at`` is ``machine`` or ``database``."""

    about: str
    at: str
    seconds: tuple[float, float] = (0.0, 0.0)  # shortest and longest time until the repair


_UP_TO: Final = (1.0, 12.0)

KINDS: Final = {
    "kill": Kind("kill -9 of a replica, then a restart", "machine"),
    "term": Kind("SIGTERM of a replica, then a restart", "machine"),
    "upgrade": Kind("SIGTERM of a replica, then a start of the command --upgrade-to",
                    "machine", (5.0, 5.0)),
    "hour": Kind("removal of the notes of older replicas, as an hour after their end",
                 "database"),
    "stop": Kind("SIGSTOP of a replica", "machine", _UP_TO),
    "reset": Kind("RST on all connections of a replica to the database", "machine"),
    "half-close": Kind("a replica's connections to the database are half closed", "machine"),
    "refuse": Kind("a replica's connections to the database are refused", "machine", _UP_TO),
    "ignore": Kind("all packets between a replica and the database are lost, also a SYN",
                   "machine", _UP_TO),
    "black-hole": Kind("connections to the database are accepted, and no byte is forwarded",
                       "machine", _UP_TO),
    "drop-up": Kind("bytes from a replica to the database are lost", "machine", _UP_TO),
    "drop-down": Kind("bytes from the database to a replica are lost", "machine", _UP_TO),
    "delay": Kind("1.5 s of delay between a replica and the database, in both directions",
                  "machine", _UP_TO),
    "distance": Kind("50 ms of delay, in both directions", "machine", _UP_TO),
    "primary-kill": Kind("kill -9 of the primary, then a restart", "database", (0.5, 3.0)),
    "primary-restart": Kind("the primary is stopped in order and started again",
                            "database", (0.0, 2.0)),
    "primary-stop": Kind("SIGSTOP of the primary", "database", _UP_TO),
    "promote": Kind("the primary is killed, its standby promoted, a new standby built", "database"),
    # Longer than the limit of a call (15 s): a shorter fault would not show a wait for the silence.
    "vanish": Kind("as promote, and the address of the old primary is silent",
                   "database", (18.0, 25.0)),
    "depose": Kind("the standby is promoted, but the primary continues with one replica",
                   "database", (2.0, 8.0)),
    "standby-kill": Kind("kill -9 of the standby, then a restart", "database", _UP_TO),
    "backends": Kind("pg_terminate_backend and pg_cancel_backend of all backends, in bursts",
                     "database", (0.5, 2.0)),
}  # fmt: skip
"""All kinds, by name."""

_OF_UPGRADES: Final = frozenset({"upgrade", "hour"})

DRAWN: Final = tuple(kind for kind in KINDS if kind not in _OF_UPGRADES)
"""The default kinds. With --upgrade-to, upgrades come before these kinds."""


class Strike(NamedTuple):
    """A planned fault. For ``depose``, the replica ``machine`` stays at the old primary."""

    kind: str
    machine: int
    seconds: float  # until the repair
    chance: float  # from 0 to 1, for choices of the kind


def strikes(
    seed: int, kinds: Sequence[str], machines: int, longest: float
) -> Iterator[tuple[Strike, ...]]:
    """Yield rounds of one or two faults, without end. The first rounds have each kind once."""
    chance = Random(seed)  # noqa: S311 - chooses faults, no secrets
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
    """Yield the upgrade of each machine, then the fault ``hour``.

    A new version writes no newer events until an hour after the end of the old replicas. The
    fault ``hour`` replaces this wait.
    """
    seconds = min(KINDS["upgrade"].seconds[0], longest)
    for machine in range(machines):
        yield (Strike("upgrade", machine, seconds, 0.0),)
    yield (Strike("hour", 0, seconds, 0.0),)


def _strike(chance: Random, kind: str, machines: int, longest: float) -> Strike:
    seconds = min(chance.uniform(*KINDS[kind].seconds), longest)
    return Strike(kind, chance.randrange(machines), seconds, chance.random())
