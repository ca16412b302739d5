"""`keyhouse dev`: a simulated coordinator to try things on, ready with a manifest and a user.

What happens at it is told in lines for people, from the entries of its log.
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
from keyhouse.cli.dev.coordinator import Places, Serving, coordinator_at, places_at
from keyhouse.cli.dev.folder import opened
from keyhouse.cli.dev.steps import Deployment
from keyhouse.cli.manifest.file import open_manifest
from keyhouse.cli.manifest.offline import problems_of
from keyhouse.cli.output.show import coloured, show_json, show_rows
from keyhouse.cli.parser import AsJson, Option, OptionGroup, WrongUsageError, command

_WIDTH: Final = 9  # of the first word


class Line(NamedTuple):
    """A word on what has happened, its colour, and the rest."""

    word: str
    colour: str
    text: str


def _joined(entry: Mapping[str, Any]) -> Line:
    quoted = "" if entry.get("quoted") else ", without a quote"
    return Line("joined", "green", f"{entry['marble_type']}{quoted}  {entry['uuid']}")


def _read(entry: Mapping[str, Any]) -> Line:
    return Line("read", "cyan", f"{', '.join(entry['secrets'])}  by {entry['user']}")


def _changed(entry: Mapping[str, Any]) -> Line:
    said = {name: value for name, value in entry["entry"].items() if name != "time"}
    return Line("changed", "yellow", "  ".join([said.pop("update"), *_pairs(said)]))


_LINES: Final[Mapping[str, Callable[[Mapping[str, Any]], Line]]] = {
    ACTIVATED: _joined,
    SECRETS_READ: _read,
    LOG_EXTENDED: _changed,
}
_REFUSALS: Final = {
    ACTIVATION_REFUSED: "{marble_type}: {reason}",
    CALL_REFUSED: "{call}  by {user}: {reason}",
    HANDSHAKE_REFUSED: "a TLS handshake: {reason}",
}
_NOTABLE: Final = {"warning": "yellow", "error": "red"}
_OF_ENTRIES: Final = frozenset({"event", "level", "timestamp"})


def line_of(entry: Mapping[str, Any]) -> Line | None:
    """Return what to tell of ``entry``; None: nothing."""
    if "service" in entry:
        # Launchers and the coordinator both log how workloads join.
        quiet = entry["text"].startswith(OF_LAUNCHER)
        return None if quiet else Line(entry["service"], "magenta", entry["text"])
    if "text" in entry:
        return Line("said", "yellow", entry["text"])
    event, level = entry["event"], entry["level"]
    if event in _LINES:
        return _LINES[event](entry)
    if event in _REFUSALS:
        return Line("refused", "red", _REFUSALS[event].format_map(entry))
    if level not in _NOTABLE:
        return None
    said = {name: value for name, value in entry.items() if name not in _OF_ENTRIES}
    return Line(level, _NOTABLE[level], "  ".join([event, *_pairs(said)]))


def show_line(at: str, line: Line) -> None:
    """Print ``line``, which happened ``at`` a time of day."""
    word = line.word.ljust(_WIDTH)
    shown = click.style(word, fg=line.colour) if coloured(sys.stdout) else word
    sys.stdout.write(f"{at}  {shown} {printable(line.text)}\n")
    sys.stdout.flush()


def _pairs(said: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in said.items()]


_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DevOptions(OptionGroup, frozen=True, kw_only=True):
    """What is tried, and where."""

    manifest: Annotated[
        Path | None, Option("--manifest", help="set this manifest, JSON or YAML")
    ] = None
    folder: Annotated[
        Path | None,
        Option("--folder", metavar="DIR", help="keep everything here (default: keyhouse-dev)"),
    ] = None
    listen: Annotated[
        str, Option("--listen", metavar="IP", help="listen on this address of the machine")
    ] = "127.0.0.1"
    client_port: Annotated[
        int | None,
        Option(range=(0, 65535), help="of the Client API; 0: any (default: 4433, or any if taken)"),
    ] = None
    workload_port: Annotated[
        int | None,
        Option(
            range=(0, 65535), help="of the workload API; 0: any (default: 2001, or any if taken)"
        ),
    ] = None
    example: Annotated[
        bool, Option("--example", help="run a shop of two services, too; in keyhouse-example")
    ] = False
    ephemeral: Annotated[
        bool, Option("--ephemeral", help="keep nothing: a temporary folder, removed at the end")
    ] = False
    no_user: Annotated[
        bool, Option("--no-user", help="set the manifest as it is, without the user dev")
    ] = False

    console: Annotated[bool, Option("--console", help="open the console in a browser, too")] = False

    def check(self, beside: Iterable[OptionGroup]) -> None:
        """Raise ``WrongUsageError`` if an option has no effect beside the others."""
        del beside
        if self.manifest is None and self.no_user:
            raise WrongUsageError.no_effect("--no-user", "use it with --manifest")
        if self.manifest is not None and self.example:
            raise WrongUsageError(
                "--example has a manifest of its own", hint="leave --manifest out"
            )
        if self.ephemeral and self.folder is not None:
            raise WrongUsageError(
                "--ephemeral keeps nothing in a folder", hint="leave --folder or --ephemeral out"
            )

    def kept_in(self) -> Path | None:
        """Return the folder; None: one that is removed at the end."""
        usual = Path("keyhouse-example" if self.example else "keyhouse-dev")
        return None if self.ephemeral else self.folder or usual


@command
def dev(chosen: DevOptions, *, as_json: AsJson = False) -> None:
    """Run a SIMULATED coordinator to try things on.

    It has a manifest, a user and a context. It tells what can be typed next, and then what happens:
    who joins, who is refused and why, who reads what. Ctrl-C ends it; the next start in the same
    folder continues with the same state.

    Example: keyhouse dev
    """
    from keyhouse.cli.dev.deployment import Wanted, prepare
    from keyhouse.cli.dev.example import console_of, services, shop

    _require_simulation()
    raw = _checked(chosen.manifest) if chosen.manifest is not None else None
    files = (shop() / "manifest.json").read_bytes() if chosen.example else None
    wanted = Wanted(raw, has_user=not chosen.no_user, shop=files)
    with _until_signalled(), ExitStack() as ends:
        kept = ends.enter_context(opened(chosen.kept_in()))
        find = partial(places_at, chosen.listen, chosen.client_port, chosen.workload_port)
        serving, places = ends.enter_context(coordinator_at(kept, find))
        enforced = prepare(kept, serving.client, wanted)
        context = context_for(kept, serving.client, has_user=wanted.has_user)
        named = ends.enter_context(in_contexts(context))
        address = ends.enter_context(services(kept, serving)) if chosen.example else ""
        ready = Deployment.of(
            kept, serving, enforced, named, has_user=wanted.has_user, shop=address
        )
        _tell(ready, places, as_json=as_json)
        if chosen.console:
            ends.enter_context(console_of(named.name, serving))
        raise _watched(serving, quiet=as_json)


def _checked(path: Path) -> bytes:
    """Return the manifest in the file at ``path``. Raises ``InvalidError``, with every problem."""
    given = open_manifest(str(path))
    with given.explained():
        problems_of(given.raw)
        return given.raw


def _require_simulation() -> None:
    """Raise ``PlatformMissingError``, with what to install, if there is no simulated platform."""
    try:
        simulation()
    except PlatformMissingError as missing:
        raise PlatformMissingError(
            f"keyhouse dev cannot start: {missing.message}",
            hint="in a clone of Keyhouse: scripts/setup runtime, or pip install ./simulation",
        ) from None


class _SignalledError(Exception):
    """A signal came that ends the command."""


@contextmanager
def _until_signalled() -> Iterator[None]:
    """End what is inside, in order, at the first signal to end; further ones change nothing."""

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


def _tell(ready: Deployment, places: Places, *, as_json: bool) -> None:
    if as_json:
        facts = msgspec.to_builtins(ready)
        show_json({**facts, "first": ready.first(), "next": ready.steps()})
        sys.stdout.flush()
        return
    sys.stdout.write("ready: a SIMULATED coordinator, which protects nothing\n\n")
    show_rows(ready.rows())
    for note in places.notes:
        sys.stdout.write(f"\nnote: {note}\n")
    sys.stdout.write(f"\nnext, in another terminal{ready.where()}:\n")
    if first := ready.first():
        sys.stdout.write(f"\n{first}\n")
    for step in ready.steps():
        sys.stdout.write(f"\n# {step.what}\n{step.command}\n")
    sys.stdout.write("\nCtrl-C ends it. What happens:\n\n")
    sys.stdout.flush()


def _watched(serving: Serving, *, quiet: bool) -> BrokenError:
    """Tell what happens until the coordinator ends by itself; return the error to report."""
    said = []
    for entry in serving.entries():
        if "text" in entry:
            said.append(entry["text"])
        line = None if quiet else line_of(entry)
        if line is not None:
            show_line(datetime.now().astimezone().strftime("%H:%M:%S"), line)
    return serving.ended(said)
