"""All commands of the parser, and commands run inside the test's own process."""

from functools import cache
from typing import Any, NamedTuple

import click
from click.testing import CliRunner, Result

from keyhouse.cli.commands import ROOT

__all__ = ["Leaf", "below", "leaves", "typed"]


class Leaf(NamedTuple):
    """A command without commands below."""

    words: str  # without "keyhouse"
    command: Any

    @property
    def flags(self) -> set[str]:
        """All names of options, including hidden options."""
        return {name for one in self.command.params for name in one.opts if name.startswith("-")}

    @property
    def shown(self) -> set[str]:
        """All names of options in the help."""
        return {
            name
            for one in self.command.params
            for name in one.opts
            if name.startswith("-") and not one.hidden
        }


def below(group: click.Group) -> dict[str, click.Command]:
    """Return the commands of a group by their names, including hidden commands."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


@cache
def leaves() -> dict[str, Leaf]:
    """Return all public commands, by their words."""
    found: dict[str, Leaf] = {}
    waiting: list[tuple[str, click.Command]] = [("", ROOT)]
    while waiting:
        words, command = waiting.pop()
        if isinstance(command, click.Group):
            found_below = below(command).items()
            waiting += [(f"{words} {name}".strip(), one) for name, one in found_below]
        elif not command.hidden or " " in words:  # a hidden first word is unsupported
            found[words] = Leaf(words, command)
    return found


def typed(*words: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> Result:
    """Run a command in this process; return the end. Not for terminals or signals."""
    return CliRunner().invoke(ROOT, list(words), input=stdin, env=env, prog_name="keyhouse")
