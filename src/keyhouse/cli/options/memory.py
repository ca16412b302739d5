"""Where commands remember what they have seen of coordinators."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click

from keyhouse.cli.parser.parameters import Option
from keyhouse.cli.parser.usage import WrongUsageError

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
    from keyhouse.client.memory.file import FileMemory, default_memory

    path = Path(option) if option else default_memory()
    if path is None:
        click.echo(_WARNING, err=True)
        return None
    if not path.name:
        raise WrongUsageError(
            f"--memory {option} names no file", hint="a new or an older one, or none"
        )
    return FileMemory(path)


def has_place(option: str) -> bool:
    """Return whether ``memory_of`` gives a memory."""
    from keyhouse.client.memory.file import default_memory

    return option != NONE and bool(option or default_memory())
