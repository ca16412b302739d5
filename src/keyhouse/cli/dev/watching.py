"""What happens at a development coordinator, in lines for people: from the entries of its log."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import click

from keyhouse.base.printable import printable
from keyhouse.cli.output.show import coloured

_WIDTH: Final = 9  # of the first word


class Line(NamedTuple):
    """A word on what has happened, its colour, and the rest."""

    word: str
    colour: str
    text: str


def _joined(entry: Mapping[str, Any]) -> Line:
    quoted = "" if entry.get("quoted") else ", without a quote"
    return Line("joined", "green", f"{entry['marble_type']}{quoted}  {entry['uuid']}")


def _not_joined(entry: Mapping[str, Any]) -> Line:
    return Line("refused", "red", f"{entry['marble_type']}: {entry['reason']}")


def _read(entry: Mapping[str, Any]) -> Line:
    return Line("read", "cyan", f"{', '.join(entry['secrets'])}  by {entry['user']}")


def _changed(entry: Mapping[str, Any]) -> Line:
    said = {name: value for name, value in entry["entry"].items() if name != "time"}
    return Line("changed", "yellow", "  ".join([said.pop("update"), *_pairs(said)]))


def _call_refused(entry: Mapping[str, Any]) -> Line:
    return Line("refused", "red", f"{entry['call']}  by {entry['user']}: {entry['reason']}")


def _turned_away(entry: Mapping[str, Any]) -> Line:
    return Line("refused", "red", f"a TLS handshake: {entry['reason']}")


_LINES: Final[Mapping[str, Callable[[Mapping[str, Any]], Line]]] = {
    "a workload was activated": _joined,
    "an activation was refused": _not_joined,
    "secrets were read": _read,
    "the update log has a new entry": _changed,
    "a call was refused": _call_refused,
    "a TLS handshake was refused": _turned_away,
}
_OF_LAUNCHERS: Final = "keyhouse run: "  # on how they join, which the coordinator tells, too
_NOTABLE: Final = {"warning": "yellow", "error": "red"}
_OF_ENTRIES: Final = frozenset({"event", "level", "timestamp"})


def line_of(entry: Mapping[str, Any]) -> Line | None:
    """Return what to tell of ``entry``; None: nothing."""
    if "service" in entry:
        quiet = entry["text"].startswith(_OF_LAUNCHERS)
        return None if quiet else Line(entry["service"], "magenta", entry["text"])
    if "text" in entry:
        return Line("said", "yellow", entry["text"])
    event, level = entry["event"], entry["level"]
    if event in _LINES:
        return _LINES[event](entry)
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
