"""The context of a command: ``--context``, ``KEYHOUSE_CONTEXT``, or the one that is in use."""

import os
from typing import Annotated

import click
import msgspec

from keyhouse.cli.options.context_file import Context, ContextUnusableError, contexts_path, read
from keyhouse.cli.parser.command import WrongUsageError
from keyhouse.cli.parser.parameters import Option

__all__ = [
    "ContextOption",
    "NamedContext",
    "chosen_context",
    "is_of_another",
    "not_empty",
    "require_address",
]


def not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return ``value``; refuse an explicit "", which may be an unset variable of a shell.

    Read as "not given" it would let the command act on the context in use.
    """
    source = context.get_parameter_source(parameter.name or "")
    if value or source is None or source.name != "COMMANDLINE":
        return value
    raise click.BadParameter("it is empty: leave it out for the context in use")


ContextOption = Annotated[
    str,
    Option(
        "--context",
        metavar="NAME",
        check=not_empty,
        help="a context of keyhouse context add (default: $KEYHOUSE_CONTEXT, or the one in use);"
        " none: do without",
    ),
]

_NONE = "none"


class NamedContext(msgspec.Struct, frozen=True):
    """A context with its name."""

    name: str
    context: Context


def chosen_context(option: str, host: str = "") -> NamedContext | None:
    """Return the context that applies, or None.

    The context in use counts only for its own address: not with another ``host``.
    Raises ``ContextUnusableError`` for an unknown name.
    """
    named = option or os.environ.get("KEYHOUSE_CONTEXT", "")
    if named == _NONE:
        return None
    known = read(contexts_path())
    name = named or known.current
    if not name:
        return None
    if name not in known.contexts:
        raise ContextUnusableError(
            f"there is no context {name!r}", hint="keyhouse context list shows all"
        )
    found = NamedContext(name, known.contexts[name])
    return found if named or not is_of_another(found, host) else None


def require_address(named: NamedContext, host: str) -> None:
    """Raise ``WrongUsageError`` if ``host`` is given and is not the coordinator of the context."""
    if is_of_another(named, host):
        raise WrongUsageError(
            f"the context {named.name!r} is for {named.context.address}, not for {host}",
            hint="leave HOST out, or say --context none",
        )


def is_of_another(named: NamedContext, host: str) -> bool:
    """Return whether ``host`` is given and is not the coordinator of the context."""
    if not host or not named.context.address:
        return False
    from keyhouse.client.trust import parse_address

    return parse_address(host) != parse_address(named.context.address)
