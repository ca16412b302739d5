"""Where commands remember what they have seen of coordinators."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click

from keyhouse.cli.parser.command import WrongUsageError
from keyhouse.cli.parser.parameters import Option

if TYPE_CHECKING:
    from keyhouse.client import StateMemory

__all__ = ["NONE", "MemoryOption", "has_place", "memory_of"]

MemoryOption = Annotated[
    str,
    Option(
        "--memory",
        metavar="FILE",
        help="remembers the states that coordinators were in, to notice a rollback; none: do not"
        " (default: keyhouse/known-coordinators.json in $XDG_STATE_HOME or ~/.local/state)",
    ),
]

NONE: Final = "none"
_WARNING: Final = (
    "warning: nothing is remembered, so nobody notices a rollback: neither XDG_STATE_HOME nor HOME"
    " is set; --memory FILE names a place, --memory none does without"
)


def memory_of(option: str) -> "StateMemory | None":
    """Return the memory that was chosen. None: chosen not to have one, or there is no place.

    Raises ``WrongUsageError`` for what cannot be the name of a file.
    """
    if option == NONE:
        return None
    path = Path(option) if option else _default()
    if path is None:
        click.echo(_WARNING, err=True)
        return None
    if not path.name:
        raise WrongUsageError(
            f"--memory {option} names no file", hint="a new or an older one, or none"
        )
    from keyhouse.client import FileMemory

    return FileMemory(path)


def has_place(option: str) -> bool:
    """Return whether ``memory_of`` gives a memory."""
    return option != NONE and bool(option or _default())


def _default() -> Path | None:
    """Return the file in the user's directory for state (XDG Base Directory Specification)."""
    state, home = os.environ.get("XDG_STATE_HOME", ""), os.environ.get("HOME", "")
    if Path(state).is_absolute():
        folder = Path(state)
    elif Path(home).is_absolute():
        folder = Path(home) / ".local" / "state"
    else:
        return None
    return folder / "keyhouse" / "known-coordinators.json"
