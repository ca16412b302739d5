"""The agent: renews the certificate, reads changed parameters, and writes the files.

Each turn does the due steps: activate again, renew, fetch, write. Then the agent waits until
something changes or the next renewal is due. After a failure, certificate and files stay unchanged,
and the next turn begins after a pause. The program runs on.

**A new marble root.** After an update, other workloads may not trust the new marble root yet. So
the agent writes the new trusted roots at once, but its new certificate only after a time from the
coordinator, in which the workloads fetch the new roots. If workloads do not trust the former root
any more, the agent writes the new certificate at once.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, NoReturn

from keyhouse.attestation import Platform
from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.launcher.credentials import Credentials
from keyhouse.launcher.errors import AnswerUnreadableError, LaunchRefusedError
from keyhouse.launcher.parameters import Delivered
from keyhouse.launcher.program import Program
from keyhouse.launcher.supervise import channel
from keyhouse.launcher.supervise.certificates import Identity, RenewalAnswer, WorkloadCertificates
from keyhouse.launcher.supervise.channel_connection import ChannelConnection, SupervisedWorkload
from keyhouse.launcher.supervise.file_sets import FileSet
from keyhouse.launcher.supervise.orders import Changed, Ends, Failed, OrderQueue, Reload, Start
from keyhouse.launcher.supervise.partial_parameters import PartialParameters, changed
from keyhouse.launcher.supervise.schedule import (
    LATER,
    NEVER,
    Backoff,
    ChannelError,
    CoordinatorClock,
    utc,
)
from keyhouse.wire import workload_pb2 as wire

_AT_ONCE: Final = frozenset({"renew-first", "outdated-connection", "nonce"})
"""Refusals with a next step that can succeed at once. The second one in a row waits."""

_SIGNALS: Final = frozenset({"", "HUP", "USR1", "USR2", "TERM"})
_MILLISECOND: Final = 0.001  # seconds

_KEPT: Final = 20.0
"""The longest pause on an open connection, in seconds.

Meanwhile the agent answers no PING. The coordinator sends a PING after a minute of silence.
"""


class Needs(NamedTuple):
    """The values and functions of the launch that the agent needs for its work."""

    workload: SupervisedWorkload
    platform: Platform | None
    fresh: Callable[[], Credentials]  # a new key, with its signing request
    activate: Callable[[], Awaitable[Identity]]
    program_of: Callable[[Delivered], Program]
    progress: Callable[[str], None]
    warning: Callable[[str], None]
    renew_every: float  # seconds; 0: as the coordinator says
    timeout: float  # seconds until the start of the program


class Agent:
    """Keeps the certificate and the files of a workload up to date.

    ``first``: the certificate of the activation. ``files``: the files that the agent writes.
    ``orders`` pass to the supervisor.
    """

    def __init__(self, needs: Needs, first: Identity, files: FileSet, orders: OrderQueue) -> None:
        self._needs = needs
        self._files = files
        self._orders = orders
        self._clock = CoordinatorClock()
        self._backoff = Backoff()
        self._disk = Backoff()  # after failures to write
        self._write_at = NEVER  # the time of the loop at which files are written again
        self._seen = channel.Seen()
        self._certificates = WorkloadCertificates(first, needs.fresh, needs.renew_every)
        self._partial = PartialParameters({}, {}, ())
        self._have = wire.Version()
        self._reload = Reload()
        self._started: wire.Version | None = None  # the parameters of the running program
        self._fetches = True  # whether the parameters are due
        self._activates = False  # whether an activation is due
        self._is_unproven = True  # whether no renewal has followed the last activation
        self._last_refusal = ""
        self._poll = 60.0  # seconds
        self._polls = False  # whether the coordinator has no room for a lasting stream

    async def run(self) -> NoReturn:
        """Repeat turns until the process ends: all due steps, with a pause after an error.

        If the program cannot start, or not in time, the supervisor receives the order ``Failed``.
        """
        end = asyncio.get_running_loop().time() + self._needs.timeout
        while True:
            try:
                await self._turn()
            except Exception as failure:  # noqa: BLE001 the program needs an agent that goes on
                error = _known(failure)
                pause = self._pause_after(error)
                late = asyncio.get_running_loop().time() + pause > end
                if self._started is None and (late or not _is_temporary(error)):
                    self._orders.send(Failed(_final(error)))
                    pause = LATER
                elif pause:
                    self._needs.warning(f"{error}; trying again in {pause:.0f} s")
                await asyncio.sleep(pause)

    async def _turn(self) -> None:
        if self._activates:
            self._certificates.begin(await self._needs.activate())
            self._activates, self._is_unproven, self._fetches = False, True, True
            self._needs.progress("activated again")
        held, needs = self._certificates, self._needs
        if held.until_renewal(self._clock) == 0:
            present, fresh = held.newest.own, held.key_in_flight()
            self._store(
                await channel.renew(needs.workload, present, fresh, needs.platform, self._seen)
            )
        # A handshake costs the coordinator more than a call, so calls share a connection. Only a
        # handshake proves a key and a marble root. So each new key or root needs a connection.
        async with channel.reading(needs.workload, held.newest) as connection:
            pause = None
            while pause is None:
                if self._fetches:
                    await self._fetch(connection)
                self._try_to_write()
                pause = await self._watch(connection)
                if pause is None and held.until_renewal(self._clock) == 0:
                    await self._renew_over(connection)
                    pause = 0.0
        await asyncio.sleep(pause)

    async def _renew_over(self, connection: ChannelConnection) -> None:
        """Renew the certificate of ``connection`` at the scheduled time."""
        held, needs = self._certificates, self._needs
        present, fresh = held.newest.own, held.key_in_flight()
        self._store(
            await channel.renew_over(
                connection, needs.workload, present, fresh, needs.platform, self._seen
            )
        )

    def _store(self, given: RenewalAnswer) -> None:
        """Store the certificate in ``given``, the answer to a renewal, and report its times."""
        held = self._certificates
        self._set_clock(given.now)
        self._fetches |= held.store(given)
        self._is_unproven = self._polls = False
        self._notify_end()
        self._needs.progress(
            f"renewed: certificate until {utc(given.end)}, renewal at {utc(held.renew_at)}"
        )

    async def _fetch(self, connection: ChannelConnection) -> None:
        held = self._certificates
        given = await channel.fetch(connection, self._have, self._seen)
        partial = changed(self._partial, self._have, given)
        partial.filled(held.newest.own)  # refuse unusable parameters before any use
        self._reload = _reload(given.rules)
        self._partial, self._have, self._fetches = partial, given.version, False
        if given.marble_roots:
            held.trust(frozenset(given.marble_roots))
        self._set_clock(given.now)
        self._notify_end()

    def _try_to_write(self) -> None:
        """Write the files. If this fails while the program runs, schedule another attempt.

        Before the start of the program, raise ``LaunchRefusedError``.
        """
        self._write_at = NEVER
        try:
            self._write()
            self._disk.reset()
        except LaunchRefusedError as error:
            if self._started is None:
                raise
            pause = self._disk.pause()
            self._write_at = asyncio.get_running_loop().time() + pause
            self._needs.warning(f"{error}; trying again in {pause:.0f} s")

    def _write(self) -> None:
        """Write the changed files, and order the supervisor to start or notify the program."""
        differs = self._started is not None and _parameters(self._started) != _parameters(
            self._have
        )
        begins = self._started is None or (differs and self._reload.restart)
        own = self._certificates.for_files(self._clock, at_once=begins).own
        delivered = self._partial.filled(own)
        count = self._files.replace(delivered.files, self._partial.in_order())
        program = self._needs.program_of(delivered)
        if self._started is None:
            self._orders.send(Start(program, self._reload))
        elif count or begins:
            self._orders.send(Changed(program, self._reload, begins))
            self._needs.progress(f"{count} files changed")
        if differs and not begins and _outside(self._started) != _outside(self._have):
            self._needs.warning(
                "variables or arguments have changed: the program gets the new values at its next"
                " start"
            )
        self._started = self._have

    async def _watch(self, connection: ChannelConnection) -> float | None:
        """Receive messages of the coordinator until a step of the agent is due.

        Return None if this step can use ``connection``. Otherwise, return the seconds until a step
        over a new connection.
        """
        held, pause = self._certificates, 0.0
        async with channel.watching(connection, self._have, self._seen, once=self._polls) as stream:
            while left := self._left():
                message = await stream.next(left)
                if message is not None and self._apply(message):
                    pause = random.uniform(0, message.spread_ms * _MILLISECOND)  # noqa: S311 no secret
                    if message.advice != wire.NONE or held.until_renewal(self._clock) == 0:
                        return pause
                    break
                if stream.has_ended:
                    return min(self._poll, self._left())
            if pause > _KEPT:
                return pause
            # No other client takes the place of a connection with a stream.
            await asyncio.sleep(pause)
        return None

    def _left(self) -> float:
        """Return the seconds until the next step that needs no message of the stream.

        Such a step is a renewal, or a write of files.
        """
        until_write = max(0.0, self._write_at - asyncio.get_running_loop().time())
        return min(self._certificates.until_due(self._clock), until_write)

    def _apply(self, message: wire.WatchResponse) -> bool:
        """Record the content of ``message``, a message of the call ``Watch``.

        Return whether a step of the agent is due.
        """
        self._set_clock(message.now)
        self._notify_end()
        self._backoff.reset()
        self._last_refusal = ""
        self._poll = float(message.poll_seconds or self._poll)
        version, have = message.version, self._have
        if version.certificate != have.certificate or message.advice == wire.RENEW:
            self._certificates.renew_now()
        self._fetches |= version != have
        return self._fetches or message.advice in {wire.RENEW, wire.GO_ELSEWHERE}

    def _set_clock(self, now: int) -> None:
        was_apart = self._clock.is_apart
        self._clock.set(now)
        if self._clock.is_apart and not was_apart:
            self._needs.warning(
                "the clock of this machine differs from the coordinator's by more than 60 s:"
                " this workload may accept expired certificates; set the clock"
            )

    def _notify_end(self) -> None:
        seconds = self._clock.until(self._certificates.end)
        self._orders.send(Ends(seconds, self._reload.stop_at_end))

    def _pause_after(self, error: KeyhouseError) -> float:
        """Schedule the steps that ``error`` requires. Return the seconds until the next attempt."""
        refusal = error.refusal if isinstance(error, ChannelError) else error.code
        repeated, self._last_refusal = refusal == self._last_refusal, refusal
        match refusal:
            case "renew-first" | "outdated-connection":
                self._certificates.renew_now()
                self._fetches = True
            case "activate-again" if self._is_unproven:
                return LATER  # another activation would only count
            case "activate-again":
                self._activates = True
                return 0
            case "watches-full":
                self._polls = True
        return 0 if refusal in _AT_ONCE and not repeated else self._backoff.pause_after(refusal)


def _known(failure: Exception) -> KeyhouseError:
    """Return ``failure`` if it is an error of Keyhouse; otherwise an error without its text."""
    if isinstance(failure, KeyhouseError):
        return failure
    from keyhouse.base.process.crash_report import UnexpectedError

    return UnexpectedError.of(failure)


def _parameters(version: wire.Version) -> tuple[bytes, ...]:
    return version.files, version.env, version.argv


def _outside(version: wire.Version | None) -> tuple[bytes, bytes] | None:
    """Return the digests of variables and arguments: a program receives both only at its start."""
    return None if version is None else (version.env, version.argv)


def _reload(rules: wire.Rules) -> Reload:
    if rules.signal not in _SIGNALS or any("\0" in each for each in rules.command):
        raise AnswerUnreadableError("the coordinator sent an unknown signal or command (OnChange)")
    command = tuple(each.encode() for each in rules.command)
    return Reload(rules.signal, command, rules.restart, rules.stop_at_end)


def _is_temporary(error: KeyhouseError) -> bool:
    return isinstance(error, UnavailableError) and getattr(error, "is_temporary", True)


def _final(error: KeyhouseError) -> KeyhouseError:
    """Return the error that ends the launch after ``error``.

    A refusal of the channel that is not temporary becomes a ``LaunchRefusedError``, for its exit
    code.
    """
    if isinstance(error, ChannelError) and not error.is_temporary:
        return LaunchRefusedError(error.message, hint=error.hint)
    return error
