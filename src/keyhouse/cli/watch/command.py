"""`keyhouse watch`: follow logs, and print new leaves and alerts."""

import select
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec

from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.cli.log.folder import MirrorFolder
from keyhouse.cli.log.mirror import mirror_log
from keyhouse.cli.options.connect import coordinator_of, expected_of, log_policy_of
from keyhouse.cli.options.context_option import context_for
from keyhouse.cli.options.pccs import vendor_root
from keyhouse.cli.options.target import Target, TrustOptions
from keyhouse.cli.parser import Argument, AsJson, Option, OptionGroup, WrongUsageError, command
from keyhouse.cli.watch.log_poll import BrokenLogError, LogFinding, LogPoll, PollResult
from keyhouse.cli.watch.reporter import Reporter
from keyhouse.cli.watch.state import WatchState, default_state
from keyhouse.cli.watch.witnesses import WitnessAnswers, poll_witnesses
from keyhouse.client import LogPolicy, TrustError
from keyhouse.client.contexts import NamedContext
from keyhouse.evidence.pins import Pins

_RUNNING: Final = 3
"""The code of a coordinator that enforces a manifest."""

_EXEC_TIMEOUT: Final = 30  # seconds, chosen: a program that sends a message needs a few


class Hosts(OptionGroup, frozen=True, kw_only=True):
    """The watched coordinators, and additional witnesses."""

    hosts: Annotated[
        list[str],
        Argument(metavar="HOST...", help="addresses of the Client API; optional with a context"),
    ] = msgspec.field(default_factory=list)
    witness_url: Annotated[
        list[str],
        Option(
            "--witness-url",
            metavar="URL",
            help="also ask this witness whether it has seen more of the log; the command always"
            " asks the witnesses of --witness-policy",
        ),
    ] = msgspec.field(default_factory=list)


class WatchOptions(OptionGroup, frozen=True, kw_only=True):
    """The options for times and files of a watch, and for the program that receives alerts."""

    state: Annotated[
        Path | None,
        Option(
            "--state",
            help="file with the known state of the logs (default: watched-logs.json in the folder"
            " of the context's memory, or else in keyhouse in $XDG_STATE_HOME or ~/.local/state)",
        ),
    ] = None
    mirror: Annotated[
        Path | None, Option("--mirror", metavar="DIR", help="also copy the log into this mirror")
    ] = None
    interval: Annotated[
        int, Option("--interval", metavar="SECONDS", help="time between checks", range=(1, 86_400))
    ] = 60
    once: Annotated[bool, Option("--once", help="check each log once, then end")] = False
    execute: Annotated[
        Path | None,
        Option("--exec", help="program to run for each alert, with its JSON as standard input"),
    ] = None
    exec_timeout: Annotated[
        int | None,
        Option(
            "--exec-timeout",
            metavar="SECONDS",
            help="maximum time for the program of --exec, which is then killed (default: 30)",
            range=(1, 86_400),
        ),
    ] = None

    def check(self, beside: Iterable[OptionGroup]) -> None:
        """Raise ``WrongUsageError`` for ``--exec-timeout`` without ``--exec``.

        ``beside``, the option groups of the command, has no effect.
        """
        del beside
        if self.exec_timeout is not None and self.execute is None:
            raise WrongUsageError.no_effect("--exec-timeout", "use it with --exec")

    def place(self, context: NamedContext | None) -> WatchState:
        """Return the file with the known state of the logs.

        Without ``--state``, the file is in the folder of the memory that ``context`` names, or else
        in the user's folder for state. Raises ``WrongUsageError`` if there is no such folder.
        """
        from keyhouse.client.memory.file import NO_MEMORY

        memory = "" if context is None else context.context.memory
        place = self.state or default_state(None if memory in {"", NO_MEMORY} else Path(memory))
        if place is None:
            raise WrongUsageError(
                "the command has no folder for the state of the logs: neither XDG_STATE_HOME nor"
                " HOME is set",
                hint="pass --state FILE",
            )
        return WatchState(place)


@command
def watch(
    addresses: Hosts, how: WatchOptions, trusting: TrustOptions, *, as_json: AsJson = False
) -> None:
    """Follow transparency logs, and print new leaves and alerts.

    The command verifies every leaf. An alert begins with a ! and states its reasons. If a log
    contradicts itself or the known state, the command stores the contradicting parts in a file and
    ends its watch of this host. It continues with the remaining hosts. The command ends after
    --once, after an interruption, or without a remaining host. Exit code 4 means that the
    verification of at least one host failed. With --once, a coordinator without an answer causes
    exit code 3.

    Example: keyhouse watch keys.example.com:4433 --attestation attestation.json --once
    """
    hosts = addresses.hosts or [""]  # "": the address of the context
    place = how.place(context_for(trusting.context, hosts[0]))
    if how.mirror is not None and len(hosts) > 1:
        raise WrongUsageError(
            f"{len(hosts)} hosts, expected 1 with --mirror: a mirror has a single log",
            hint="watch each HOST with its own --mirror",
        )
    report = Reporter(how.execute, how.exec_timeout or _EXEC_TIMEOUT, as_json=as_json)
    urls = addresses.witness_url
    watched = [_Host(host, trusting, place, how.mirror, urls, report) for host in hosts]
    failed: list[KeyhouseError] = []
    with suppress(KeyboardInterrupt):
        while watched:
            watched = [each for each in watched if _continues(each, failed, once=how.once)]
            if how.once:
                break
            if watched and not _rest(how.interval):
                break
    if failed:  # each error is reported; the exit code shows the gravest
        raise next((each for each in failed if isinstance(each, TrustError)), failed[0])


def _rest(seconds: int) -> bool:
    """Wait ``seconds``; return False if the reader of the output has ended, as after ``| head``."""
    poll = select.poll()
    with suppress(OSError, ValueError):  # an output without a descriptor is no pipe
        poll.register(sys.stdout.fileno(), 0)  # without an event: POLLERR is always reported
    return not poll.poll(seconds * 1000)


def _continues(host: "_Host", failed: list[KeyhouseError], *, once: bool) -> bool:
    """Poll ``host``; return whether the watch of this host continues.

    An error ends the watch of the host, and is appended to ``failed``. ``once`` is the option
    ``--once``.
    """
    try:
        host.poll(once=once)
    except KeyhouseError as error:
        host.alert("ended", error.message, error.hint)
        failed.append(error)
        return False
    return True


class _Host:
    """A deployment that `keyhouse watch` follows, at the address ``host``.

    ``state`` is the file with the known state of the log. ``mirror``: the directory to copy the log
    into, or None. ``urls``: the additional witnesses. ``report`` receives each finding.
    """

    def __init__(
        self,
        host: str,
        trusting: TrustOptions,
        state: WatchState,
        mirror: Path | None,
        urls: Sequence[str],
        report: Callable[[LogFinding], None],
    ) -> None:
        target = Target.at(host, trusting).resolve()
        self._policy: LogPolicy | None = log_policy_of(target)
        self._pins = Pins(
            vendor_root=vendor_root(target.simulation_root),
            identity=expected_of(target),
            policy=None,
            now=datetime.now(UTC),
        )
        # The known state of the log is stronger than a memory. This class checks the witnesses
        # itself.
        self._target = msgspec.structs.replace(
            target, context="none", memory="none", witness_policy=None, log_max_age=None
        )
        own = () if self._policy is None else self._policy.witnesses.witnesses
        self._urls = [*urls, *(each.url for each in own if each.url)]
        self._answers = WitnessAnswers()
        self._state = state
        self._mirror = mirror
        self._report = report
        self._last_problem = ""  # the kind of the last alert that does not concern a leaf

    def poll(self, *, once: bool) -> None:
        """Read the log and ask the witnesses; report new leaves and alerts.

        Raises ``TrustError`` for a broken or untrusted log. A coordinator without an answer is an
        alert, or with ``once`` (the option ``--once``) an error.
        """
        try:
            result = self._poll_log()
        except UnavailableError as error:
            if once:
                raise
            self.alert("silence", error.message)
            return
        for finding in result.findings:
            self._report(finding)
        self._state.store(self._target.host, result.watched)
        if self._answers.withheld:
            self.alert("withheld", self._answers.withheld)
        elif problem := self._witness_problem(result):
            self.alert("not-witnessed", problem)
        elif self._answers.silent:
            self.alert("witness-silent", self._answers.silent)
        elif self._last_problem:
            self._last_problem = ""
            self._report(
                LogFinding(host=self._target.host, kind="answers", text="as expected again")
            )

    def _poll_log(self) -> PollResult:
        known = self._state.read().get(self._target.host)
        with coordinator_of(self._target) as coordinator:
            status = coordinator.status()
            if status.code != _RUNNING:
                raise UnavailableError(
                    f"no manifest is in force: {status.message}",
                    hint="set a manifest with keyhouse manifest set, or recover the state with"
                    " keyhouse recover",
                )
            try:
                root = coordinator.trusted.root_der
                result = LogPoll(self._target.host, coordinator, root, self._pins).follow(known)
            except BrokenLogError as error:
                evidence = self._state.store_broken(
                    self._target.host, error.message, known, error.parts
                )
                raise TrustError(
                    error.message,
                    hint=f"show the evidence in {evidence} to the other parties; to follow the log"
                    f" from its start nevertheless, move {self._state.path} away",
                ) from None
            self._answers = poll_witnesses(coordinator, result.newest, self._urls)
            if self._mirror is not None:
                mirror_log(coordinator, MirrorFolder(self._mirror))
        return result

    def _witness_problem(self, result: PollResult) -> str:
        if self._policy is None:
            return ""
        try:
            self._policy.require(result.witnessed, datetime.now(UTC))
        except TrustError as error:
            return error.message
        return ""

    def alert(self, kind: str, text: str, hint: str = "") -> None:
        """Report the problem ``text`` as an alert, but a lasting problem only once.

        ``kind`` is a stable word for the problem. The method reports nothing if the last alert had
        the same kind. ``hint`` is the next step for the user.
        """
        if kind == self._last_problem:
            return
        self._last_problem, why = kind, (hint,) if hint else ()
        self._report(LogFinding(host=self._target.host, kind=kind, text=text, alert=True, why=why))
