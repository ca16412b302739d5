"""The faults of a lab as contexts: the begin makes the fault, the end repairs it."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, Final

import asyncpg
from fuzz.chaos.faults import Strike
from fuzz.chaos.lab import Lab
from support.process.server import signal_all
from support.replicas.threads import threads

from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.events import LEVEL
from keyhouse.coordinator.hand_off.notes import Membership, read_quoted

__all__ = ["STRIKES"]

_BURST_PAUSE: Final = 0.2
_BACKENDS: Final = (
    "SELECT {}(pid) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)
_MEMBERS: Final = "SELECT name, raw FROM keyhouse.note WHERE kind = 'member'"
_DELETE_MEMBER: Final = "DELETE FROM keyhouse.note WHERE kind = 'member' AND name = $1"


@contextmanager
def _ended(number: int, lab: Lab, strike: Strike) -> Iterator[None]:
    lab.end(strike.machine, number, strike.chance)
    yield


@contextmanager
def _upgraded(lab: Lab, strike: Strike) -> Iterator[None]:
    lab.servers[strike.machine].run_next(*lab.upgrade)
    lab.end(strike.machine, signal.SIGTERM, 0.0)
    yield


@contextmanager
def _stopped(lab: Lab, strike: Strike) -> Iterator[None]:
    processes = lab.processes(strike.machine)
    signal_all(signal.SIGSTOP, *processes)
    try:
        yield
    finally:
        signal_all(signal.SIGCONT, *processes)


@contextmanager
def _broken(what: str, lab: Lab, strike: Strike, **more: Any) -> Iterator[None]:
    """Break all connections of a machine once."""
    lab.network(strike.machine, what, **more)
    yield


@contextmanager
def _disturbed(what: str, lab: Lab, strike: Strike, **more: Any) -> Iterator[None]:
    """Disturb the network of a machine."""
    lab.network(strike.machine, what, **more)
    try:
        yield
    finally:
        lab.network(strike.machine, "pass")


@contextmanager
def _primary_killed(lab: Lab, strike: Strike) -> Iterator[None]:
    del strike
    lab.cluster.writer.crash()
    try:
        yield
    finally:
        lab.cluster.writer.start()


@contextmanager
def _primary_restarted(lab: Lab, strike: Strike) -> Iterator[None]:
    del strike
    lab.cluster.writer.stop()
    try:
        yield
    finally:
        lab.cluster.writer.start()


@contextmanager
def _primary_stopped(lab: Lab, strike: Strike) -> Iterator[None]:
    del strike
    with lab.cluster.writer.paused():
        yield


@contextmanager
def _promoted(lab: Lab, strike: Strike) -> Iterator[None]:
    del strike
    lab.cluster.writer.crash()
    _replace(lab)
    lab.lead(1 - lab.cluster.primary)
    yield


@contextmanager
def _vanished(lab: Lab, strike: Strike) -> Iterator[None]:
    """Lose the machine of the primary. Its address is silent until the repair.

    Either nothing answers a SYN, or connections are accepted and no byte follows.
    """
    silent = lab.cluster.primary
    lab.everywhere(silent, "ignore" if strike.chance < 1 / 2 else "drop")
    try:
        lab.cluster.writer.crash()
        _replace(lab)
        yield
    finally:
        lab.lead(silent)
        lab.everywhere(silent, "pass")


def _replace(lab: Lab) -> None:
    """Promote the standby in place of an ended primary, and build a new standby."""
    old = lab.cluster.promote()
    lab.cluster.rebuild()
    lab.cluster.remove(old)


@contextmanager
def _deposed(lab: Lab, strike: Strike) -> Iterator[None]:
    """Promote the standby. The old primary continues, with one replica."""
    place = lab.cluster.primary
    old = lab.cluster.promote()
    others = [each for each in range(len(lab.servers)) if each != strike.machine]
    for machine in others:
        lab.network(machine, "refuse", place)
    try:
        lab.cluster.rebuild()
        yield
    finally:
        lab.cluster.remove(old)
        lab.lead(place)
        for machine in others:
            lab.network(machine, "pass", place)


@contextmanager
def _standby_killed(lab: Lab, strike: Strike) -> Iterator[None]:
    del strike
    lab.cluster.standby.crash()
    try:
        yield
    finally:
        lab.cluster.standby.start()
        lab.cluster.await_standby()


@contextmanager
def _backends_ended(lab: Lab, strike: Strike) -> Iterator[None]:
    """End all connections at the server repeatedly."""
    del strike
    ending = threading.Event()

    def end_them() -> None:
        while True:
            for function in ("pg_cancel_backend", "pg_terminate_backend"):
                # A second fault may end this connection at the same time.
                with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    asyncio.run(lab.cluster.writer.ask(_BACKENDS.format(function)))
            if ending.wait(_BURST_PAUSE):
                return

    with threads(ending, [end_them]):
        yield


@contextmanager
def _hour_passed(lab: Lab, strike: Strike) -> Iterator[None]:
    """Delete the notes of members of an older version. All these members have ended."""
    del strike
    asyncio.run(_delete_old_notes(lab.cluster.writer.url(lab.cluster.database)))
    yield


async def _delete_old_notes(url: Secret) -> None:
    connection = await asyncpg.connect(url.reveal().decode())
    try:
        for row in await connection.fetch(_MEMBERS):
            if Membership.read(read_quoted(row["raw"]).message).level < LEVEL:
                await connection.execute(_DELETE_MEMBER, row["name"])
    finally:
        await connection.close()


STRIKES: Final[dict[str, Callable[[Lab, Strike], AbstractContextManager[None]]]] = {
    "kill": partial(_ended, signal.SIGKILL),
    "term": partial(_ended, signal.SIGTERM),
    "upgrade": _upgraded,
    "hour": _hour_passed,
    "stop": _stopped,
    "reset": partial(_broken, "reset"),
    "half-close": partial(_broken, "half-close"),
    "refuse": partial(_disturbed, "refuse"),
    "ignore": partial(_disturbed, "ignore"),
    "black-hole": partial(_disturbed, "drop"),
    "drop-up": partial(_disturbed, "drop", directions=("up",)),
    "drop-down": partial(_disturbed, "drop", directions=("down",)),
    "delay": partial(_disturbed, "delay", seconds=1.5),
    "distance": partial(_disturbed, "delay", seconds=0.05),
    "primary-kill": _primary_killed,
    "primary-restart": _primary_restarted,
    "primary-stop": _primary_stopped,
    "promote": _promoted,
    "vanish": _vanished,
    "depose": _deposed,
    "standby-kill": _standby_killed,
    "backends": _backends_ended,
}
"""The context for each kind in ``KINDS``."""
