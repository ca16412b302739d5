"""Where commands remember what they have seen of coordinators."""

from typing import TYPE_CHECKING, Annotated

from keyhouse.cli.parser import Option, WrongUsageError

if TYPE_CHECKING:
    from keyhouse.client import FileMemory

MemoryOption = Annotated[
    str,
    Option(
        "--memory",
        metavar="FILE",
        help="remembers the states that coordinators were in, to notice a rollback; none: do not"
        " (default: keyhouse/known-coordinators.json in $XDG_STATE_HOME or ~/.local/state)",
    ),
]


def memory_of(option: str) -> "FileMemory | None":
    """Return the memory that was chosen; None: chosen not to have one.

    Raises ``WrongUsageError`` for one that cannot be.
    """
    from keyhouse.client.memory.file import MemoryUnusableError, chosen_memory

    try:
        return chosen_memory(option)
    except MemoryUnusableError as refused:
        raise WrongUsageError(refused.message, hint=refused.hint) from None
