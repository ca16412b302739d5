"""Where commands remember what they have seen of coordinators."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from keyhouse.cli.parser import Option, WrongUsageError

if TYPE_CHECKING:
    from keyhouse.client import StateMemory

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


def memory_of(option: str) -> "StateMemory | None":
    """Return the memory that was chosen; None: chosen not to have one.

    Raises ``WrongUsageError`` for what cannot be the name of a file, and if there is no place: then
    a rollback would stay unnoticed.
    """
    if option == NONE:
        return None
    from keyhouse.client.memory.file import FileMemory, default_memory

    path = Path(option) if option else default_memory()
    if path is None:
        raise WrongUsageError(
            "no place to remember coordinators: neither XDG_STATE_HOME nor HOME is set",
            hint="--memory FILE; with --memory none a rollback stays unnoticed",
        )
    if not path.name:
        raise WrongUsageError(
            f"--memory {option} is not a file", hint="name a new or an existing file, or none"
        )
    return FileMemory(path)
