"""All commands as the parser has them, and commands run inside the test's own process."""

from functools import cache
from typing import Any, NamedTuple

import click
from click.testing import CliRunner, Result

from keyhouse.cli.commands import ROOT

__all__ = ["Leaf", "below", "leaves", "typed"]


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


def below(group: click.Group) -> dict[str, click.Command]:
    """Return the commands of a group, hidden ones too, by their names."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


@cache
def leaves() -> dict[str, Leaf]:
    """Return all commands that are offered, by their words."""
    found: dict[str, Leaf] = {}
    waiting: list[tuple[str, click.Command]] = [("", ROOT)]
    while waiting:
        words, command = waiting.pop()
        if isinstance(command, click.Group):
            found_below = below(command).items()
            waiting += [(f"{words} {name}".strip(), one) for name, one in found_below]
        elif not command.hidden or " " in words:  # else it is unsupported
            found[words] = Leaf(words, command)
    return found


def typed(*words: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> Result:
    """Return how the command ended; for what needs no process, such as a terminal or signals."""
    return CliRunner().invoke(ROOT, list(words), input=stdin, env=env, prog_name="keyhouse")
