"""Parse command lines into parameters of functions, on top of click."""

from keyhouse.cli.parser.command import (
    ANY_WORDS,
    REFUSED,
    TRUST_FAILED,
    AsJson,
    Command,
    CommandGroup,
    Root,
    Sections,
    command,
)
from keyhouse.cli.parser.parameters import Argument, Option, OptionGroup
from keyhouse.cli.parser.usage import WrongUsageError

__all__ = [
    "ANY_WORDS",
    "REFUSED",
    "TRUST_FAILED",
    "Argument",
    "AsJson",
    "Command",
    "CommandGroup",
    "Option",
    "OptionGroup",
    "Root",
    "Sections",
    "WrongUsageError",
    "command",
]
