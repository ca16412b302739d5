"""All commands as the parser has them, and commands run inside the test's own process."""

from functools import cache
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.testing import CliRunner, Result

from keyhouse.cli.commands import COMMANDS, app_of

__all__ = ["Leaf", "leaves", "root", "typed"]


class Leaf(NamedTuple):
    """One command that does something."""

    words: str  # without "keyhouse"
    command: Any

    @property
    def flags(self) -> set[str]:
        """Every name of its options, hidden ones too."""
        return {name for one in self.command.params for name in one.opts if name.startswith("-")}

    @property
    def shown(self) -> set[str]:
        """Every name of its options that its help shows."""
        return {
            name
            for one in self.command.params
            for name in one.opts
            if name.startswith("-") and not one.hidden
        }


@cache
def root() -> Any:
    """Return the group of all commands."""
    return typer.main.get_command(app_of(()))


@cache
def leaves() -> dict[str, Leaf]:
    """Return all commands that are offered, by their words."""
    unsupported = {entry.name for entry in COMMANDS if entry.hidden}
    found, waiting = {}, [("", root())]
    while waiting:
        words, command = waiting.pop()
        if isinstance(command, TyperGroup):
            below = command.commands.items()
            waiting += [(f"{words} {name}".strip(), one) for name, one in below]
        elif words not in unsupported:
            found[words] = Leaf(words, command)
    return found


def typed(*words: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> Result:
    """Return how the command ended; for what needs no process, such as a terminal or signals."""
    app = app_of(words)
    return CliRunner().invoke(app, list(words), input=stdin, env=env, prog_name="keyhouse")
