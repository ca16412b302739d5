"""Which context a command is in: ``--context``, ``KEYHOUSE_CONTEXT``, or what ``use`` set."""

import os
from typing import Annotated

import msgspec
import typer

from keyhouse.cli.options.context_file import Context, ContextUnusable, contexts_path, read
from keyhouse.cli.output.usage import WrongUsage

__all__ = [
    "ContextOption",
    "Named",
    "chosen_context",
    "is_of_another",
    "not_empty",
    "require_address",
]


def not_empty(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """Return ``value``, refused if "" was typed: it may be a variable of a shell that is not set.

    Taken for nothing typed, it would let the command act on the context in use.
    """
    source = context.get_parameter_source(parameter.name or "")
    if value or source is None or source.name != "COMMANDLINE":
        return value
    raise typer.BadParameter("it is empty: leave it out for the context in use")


ContextOption = Annotated[
    str,
    typer.Option(
        "--context",
        metavar="NAME",
        callback=not_empty,
        help="a context of keyhouse context add (default: $KEYHOUSE_CONTEXT, or the one in use);"
        " none: do without",
    ),
]

_NONE = "none"


class Named(msgspec.Struct, frozen=True):
    """A context with its name."""

    name: str
    context: Context


def chosen_context(option: str, host: str = "") -> Named | None:
    """Return the context to be in, None if there is none.

    One that is only in use speaks for its own address: with another ``host`` it does not count.
    Raises ``ContextUnusable`` for a name that there is not.
    """
    named = option or os.environ.get("KEYHOUSE_CONTEXT", "")
    if named == _NONE:
        return None
    known = read(contexts_path())
    name = named or known.current
    if not name:
        return None
    if name not in known.contexts:
        raise ContextUnusable(
            f"there is no context {name!r}", hint="keyhouse context list shows all"
        )
    found = Named(name, known.contexts[name])
    return found if named or not is_of_another(found, host) else None


def require_address(named: Named, host: str) -> None:
    """Return if ``host``, or none, goes with the context. Raises ``WrongUsage``."""
    if is_of_another(named, host):
        raise WrongUsage(
            f"the context {named.name!r} is for {named.context.address}, not for {host}",
            hint="leave HOST out, or say --context none",
        )


def is_of_another(named: Named, host: str) -> bool:
    """Return whether ``host`` was typed and is not the coordinator of the context."""
    if not host or not named.context.address:
        return False
    from keyhouse.client.trust import parse_address

    return parse_address(host) != parse_address(named.context.address)
