"""`keyhouse dev`: run a simulated coordinator with a manifest, a user and a context.

The coordinator runs in a child process. The command translates the entries of the coordinator's log
into lines for people.
"""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, NamedTuple

import click
import msgspec

from keyhouse.attestation.platforms.find import PlatformMissingError, simulation
from keyhouse.base.errors import BrokenError
from keyhouse.base.log_texts import (
    ACTIVATED,
    ACTIVATION_REFUSED,
    CALL_REFUSED,
    HANDSHAKE_REFUSED,
    LOG_EXTENDED,
    OF_LAUNCHER,
    SECRETS_READ,
)
from keyhouse.base.printable import printable
from keyhouse.cli.dev.context import context_for, in_contexts
from keyhouse.cli.dev.coordinator import Places, RunningCoordinator, coordinator_at, places_at
from keyhouse.cli.dev.folder import open_folder
from keyhouse.cli.dev.steps import DevDeployment
from keyhouse.cli.manifest.file import open_manifest
from keyhouse.cli.manifest.offline import problems_of
from keyhouse.cli.output.log_entry import entry_words
from keyhouse.cli.output.show import coloured, show_json, show_rows
from keyhouse.cli.output.width import columns, fitted
from keyhouse.cli.parser import AsJson, Option, OptionGroup, WrongUsageError, command

_WIDTH: Final = 9  # columns of the first word


class EventLine(NamedTuple):
    """A line of output about an event: a word such as "joined", the word's colour, and details."""

    word: str
    colour: str
    text: str


def _joined_line(entry: Mapping[str, Any]) -> EventLine:
    quoted = "" if entry.get("quoted") else ", without a quote"
    return EventLine("joined", "green", f"{entry['marble_type']}{quoted}  {entry['uuid']}")


def _read_line(entry: Mapping[str, Any]) -> EventLine:
    return EventLine("read", "cyan", f"{', '.join(entry['secrets'])}  by {entry['user']}")


def _changed_line(entry: Mapping[str, Any]) -> EventLine:
    fields = entry["entry"]
    return EventLine("changed", "yellow", "  ".join([fields["update"], *entry_words(fields)]))


_LINES: Final[Mapping[str, Callable[[Mapping[str, Any]], EventLine]]] = {
    ACTIVATED: _joined_line,
    SECRETS_READ: _read_line,
    LOG_EXTENDED: _changed_line,
}
_REFUSALS: Final = {
    ACTIVATION_REFUSED: "{marble_type}: {reason}",
    CALL_REFUSED: "{call}  by {user}: {reason}",
    HANDSHAKE_REFUSED: "a TLS handshake: {reason}",
}
_NOTABLE: Final = {"warning": "yellow", "error": "red"}
_OF_ENTRIES: Final = frozenset({"event", "level", "timestamp"})


def line_of(entry: Mapping[str, Any]) -> EventLine | None:
    """Return the line for people about ``entry``, an entry of the coordinator's log.

    Most entries are about ordinary events without a line: then the result is None.
    """
    if "service" in entry:
        # Launchers and the coordinator both log how workloads join.
        quiet = entry["text"].startswith(OF_LAUNCHER)
        return None if quiet else EventLine(entry["service"], "magenta", entry["text"])
    if "text" in entry:
        return EventLine("said", "yellow", entry["text"])
    event, level = entry["event"], entry["level"]
    if event in _LINES:
        return _LINES[event](entry)
    if event in _REFUSALS:
        return EventLine("refused", "red", _REFUSALS[event].format_map(entry))
    if level not in _NOTABLE:
        return None
    fields = {name: value for name, value in entry.items() if name not in _OF_ENTRIES}
    return EventLine(level, _NOTABLE[level], "  ".join([event, *_pairs(fields)]))


def show_line(at: str, line: EventLine) -> None:
    """Print ``line`` with the time of day ``at``."""
    word = line.word.ljust(_WIDTH)
    shown = click.style(word, fg=line.colour) if coloured(sys.stdout) else word
    indent = len(at) + len(word) + 3
    text = f"{at}  {shown} {printable(line.text)}"
    sys.stdout.write(fitted(text, columns(sys.stdout), indent) + "\n")
    sys.stdout.flush()


def _pairs(fields: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in fields.items()]


_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DevOptions(OptionGroup, frozen=True, kw_only=True):
    """The options of `keyhouse dev`: manifest, folder, addresses, and additional programs."""

    manifest: Annotated[
        Path | None,
        Option("--manifest", help="set this manifest, JSON or YAML, with the additional user dev"),
    ] = None
    folder: Annotated[
        Path | None,
        Option(
            "--folder",
            metavar="DIR",
            help="folder of the state (default: keyhouse-dev, or keyhouse-example)",
        ),
    ] = None
    listen: Annotated[
        str, Option("--listen", metavar="IP", help="IPv4 address of this machine for the listeners")
    ] = "127.0.0.1"
    client_port: Annotated[
        int | None,
        Option(
            range=(0, 65535),
            help="port of the Client API; 0: a free port (default: 4433, or a free port)",
        ),
    ] = None
    workload_port: Annotated[
        int | None,
        Option(
            range=(0, 65535),
            help="port of the workload API; 0: a free port (default: 2001, or a free port)",
        ),
    ] = None
    example: Annotated[
        bool, Option("--example", help="also run a shop of two services; in keyhouse-example")
    ] = False
    ephemeral: Annotated[
        bool, Option("--ephemeral", help="use a temporary folder, which is removed at the end")
    ] = False
    no_user: Annotated[bool, Option("--no-user", help="set the manifest without the user dev")] = (
        False
    )

    witnesses: Annotated[
        bool,
        Option(
            "--witnesses", help="also run three witnesses, to try the protection from rollbacks"
        ),
    ] = False
    console: Annotated[bool, Option("--console", help="also open the console in a browser")] = False

    def check(self, beside: Iterable[OptionGroup]) -> None:
        """Raise ``WrongUsageError`` for an option without effect, and for contradicting options.

        ``beside``, the option groups of the command, has no effect.
        """
        del beside
        if self.manifest is None and self.no_user:
            raise WrongUsageError.no_effect("--no-user", "use it with --manifest")
        if self.manifest is not None and self.example:
            raise WrongUsageError(
                "--example and --manifest both name a manifest", hint="omit one of them"
            )
        if self.ephemeral and self.folder is not None:
            raise WrongUsageError(
                "--folder has no effect with --ephemeral, which uses a temporary folder",
                hint="omit --folder or --ephemeral",
            )

    def state_folder(self) -> Path | None:
        """Return the folder for the coordinator's files, or None for a temporary folder."""
        usual = Path("keyhouse-example" if self.example else "keyhouse-dev")
        return None if self.ephemeral else self.folder or usual


@command
def dev(options: DevOptions, *, as_json: AsJson = False) -> None:
    """Run a SIMULATED coordinator for tests and first steps.

    The coordinator has a manifest, a user and a context. The command prints commands to try next,
    then the events: joined workloads, refusals with their reasons, secrets read by users. Ctrl-C
    (SIGINT), SIGTERM or SIGHUP ends the command with exit code 0. The next start in the same folder
    continues with the same state. With --manifest, the command adds the user dev to the manifest;
    this user may read and write its secrets. With --json, the command prints an object when the
    coordinator is ready, and no events.

    Example: keyhouse dev
    """
    from keyhouse.cli.dev.deployment import ManifestRequest, prepare
    from keyhouse.cli.dev.example import console_of, services, shop
    from keyhouse.cli.dev.witnesses import require_possible, witnesses

    _require_simulation()
    raw = _read_checked(options.manifest) if options.manifest is not None else None
    files = (shop() / "manifest.json").read_bytes() if options.example else None
    with _until_signalled(), ExitStack() as ends:
        folder = ends.enter_context(open_folder(options.state_folder()))
        if options.witnesses:
            require_possible(folder)
        has_witnesses = options.witnesses or folder.witnesses.exists()
        policy = ends.enter_context(witnesses(folder)) if has_witnesses else ""
        request = ManifestRequest(raw, has_user=not options.no_user, shop=files, policy=policy)
        find = partial(places_at, options.listen, options.client_port, options.workload_port)
        serving, places = ends.enter_context(coordinator_at(folder, find))
        enforced = prepare(folder, serving.client, request)
        context = context_for(folder, serving.client, has_user=request.has_user)
        active = ends.enter_context(in_contexts(context))
        address = ends.enter_context(services(folder, serving)) if options.example else ""
        ready = DevDeployment.of(
            folder, serving, enforced, active, has_user=request.has_user, shop=address
        )
        _print_ready(ready, places, as_json=as_json)
        if options.console:
            ends.enter_context(console_of(active.name, serving))
        raise _print_events(serving, quiet=as_json)


def _read_checked(path: Path) -> bytes:
    """Check the manifest in the file ``path``, and return its bytes for the upload.

    Raises ``FileUnreadableError``, and ``FileInvalidError`` with every problem.
    """
    file = open_manifest(str(path))
    with file.explained():
        problems_of(file.raw)
        return file.raw


def _require_simulation() -> None:
    """Raise ``PlatformMissingError`` if the simulated platform is not installed."""
    try:
        simulation()
    except PlatformMissingError as missing:
        raise PlatformMissingError(
            f"keyhouse dev cannot start: {missing.message}",
            hint="in a clone of Keyhouse, run scripts/setup runtime or pip install ./simulation",
        ) from None


class _SignalledError(Exception):
    """A signal such as Ctrl-C ends `keyhouse dev`."""


@contextmanager
def _until_signalled() -> Iterator[None]:
    """End the block at the first SIGINT, SIGTERM or SIGHUP; ignore later signals.

    The programs of the block are stopped, and its temporary files are removed.
    """

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in _ENDS:
            signal.signal(number, signal.SIG_IGN)
        raise _SignalledError

    for number in _ENDS:
        signal.signal(number, end)
    try:
        yield
    except _SignalledError:
        sys.stderr.write("ended\n")


def _print_ready(ready: DevDeployment, places: Places, *, as_json: bool) -> None:
    if as_json:
        facts = msgspec.to_builtins(ready)
        show_json({**facts, "first": ready.first(), "next": ready.steps()})
        sys.stdout.flush()
        return
    sys.stdout.write("ready: a SIMULATED coordinator, which protects nothing\n\n")
    show_rows(ready.rows(), wraps=True)
    for note in places.notes:
        sys.stdout.write("\n" + fitted(f"note: {note}", columns(sys.stdout)) + "\n")
    sys.stdout.write(f"\nnext, in another terminal{ready.where()}:\n")
    if first := ready.first():
        sys.stdout.write(f"\n{first}\n")
    for step in ready.steps():
        sys.stdout.write(f"\n# {step.what}\n{step.command}\n")
    sys.stdout.write("\nCtrl-C ends the coordinator. Events:\n\n")
    sys.stdout.flush()


def _print_events(serving: RunningCoordinator, *, quiet: bool) -> BrokenError:
    """Print the events of the coordinator ``serving`` until its process ends by itself.

    Return the error about this end. With ``quiet``, the function prints no event.
    """
    output = []
    for entry in serving.entries():
        if "text" in entry:
            output.append(entry["text"])
        line = None if quiet else line_of(entry)
        if line is not None:
            show_line(datetime.now().astimezone().strftime("%H:%M:%S"), line)
    return serving.end_error(output)
