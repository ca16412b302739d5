"""The context of a command: ``--context``, ``KEYHOUSE_CONTEXT``, or the one that is in use."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import click

from keyhouse.base.errors import KeyhouseError, Problem
from keyhouse.cli.parser import Option, WrongUsageError
from keyhouse.client import contexts


def not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return ``value``; refuse an explicit "", which may be an unset variable of a shell.

    Read as "not given" it would let the command act on the context in use.
    """
    source = context.get_parameter_source(parameter.name or "")
    if value or source is None or source.name != "COMMANDLINE":
        return value
    raise click.BadParameter("it is empty: leave it out for the context in use")


CONNECTION: Final = "Connection"
"""The section of the options that say where the coordinator is."""


def known_contexts() -> list[str]:
    """Return the names of all contexts, for a shell to complete; none if they cannot be read."""
    try:
        return [*contexts.read(contexts.contexts_path()).contexts, "none"]
    except (KeyhouseError, OSError):  # anyone who presses Tab cannot read an error
        return []


ContextOption = Annotated[
    str,
    Option(
        "--context",
        metavar="NAME",
        section=CONNECTION,
        check=not_empty,
        complete=known_contexts,
        help="a context of keyhouse context add (default: $KEYHOUSE_CONTEXT, or the one in use);"
        " none: do without",
    ),
]


@contextmanager
def locating_contexts() -> Iterator[None]:
    """Show where the file of contexts is invalid, if it is read in the block and is.

    Raises ``FileInvalidError`` then.
    """
    try:
        yield
    except contexts.ContextsSyntaxError as error:
        from keyhouse.cli.output.source_text import FileInvalidError, SourceText
        from keyhouse.manifest.source.source_map import SourceMap, Span

        places = SourceMap()
        if error.place is not None:
            places.note("", Span(*error.place))
        source = SourceText(str(error.path), error.content, places)
        raise FileInvalidError(source, [Problem("", "invalid TOML", error.hint)], error) from None


def context_for(option: str, host: str = "") -> contexts.NamedContext | None:
    """Return the context that applies, or None.

    The context in use counts only for its own address: not with another ``host``.
    Raises ``ContextUnusableError`` for an unknown name.
    """
    with locating_contexts():
        found = contexts.chosen_context(option)
    is_other = found is not None and found.is_implied and is_of_another(found, host)
    return None if is_other else found


def not_applied(option: str, host: str) -> str:
    """Return why the context in use is not applied; "" if it is, or if there is none."""
    with locating_contexts():
        found = contexts.chosen_context(option)
    if found is None or not found.is_implied or not is_of_another(found, host):
        return ""
    return (
        f"the context {found.name!r} is not applied: it is for {found.context.address};"
        " leave HOST out to apply it"
    )


def require_address(named: contexts.NamedContext, host: str) -> None:
    """Raise ``WrongUsageError`` if ``host`` is given and is not the coordinator of the context."""
    if is_of_another(named, host):
        raise WrongUsageError(
            f"the context {named.name!r} is for {named.context.address}, not for {host}",
            hint="leave HOST out, or pass --context none",
        )


def is_of_another(named: contexts.NamedContext, host: str) -> bool:
    """Return whether ``host`` is given and is not the coordinator of the context."""
    if not host or not named.context.address:
        return False
    from keyhouse.client.trust import parse_address

    return parse_address(host) != parse_address(named.context.address)
