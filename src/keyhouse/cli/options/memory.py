"""The option for the memory: a file with the states of coordinators that commands have seen."""

from typing import TYPE_CHECKING, Annotated

from keyhouse.cli.parser import Option, WrongUsageError

if TYPE_CHECKING:
    from keyhouse.client import FileMemory

MemoryOption = Annotated[
    str,
    Option(
        "--memory",
        metavar="FILE",
        help="file with the remembered states of coordinators, to notice a rollback; none: no file"
        " (default: keyhouse/known-coordinators.json in $XDG_STATE_HOME or ~/.local/state)",
    ),
]


def memory_of(option: str) -> "FileMemory | None":
    """Return the memory in the file of ``option``, the value of ``--memory``.

    "" selects the usual file. For ``none``, there is no memory, and the result is None. Raises
    ``WrongUsageError`` for an unusable memory.
    """
    from keyhouse.client.memory.file import MemoryUnusableError, chosen_memory

    try:
        return chosen_memory(option)
    except MemoryUnusableError as refused:
        raise WrongUsageError(refused.message, hint=refused.hint) from None
