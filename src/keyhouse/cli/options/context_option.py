"""Select the context of a command: ``--context``, ``KEYHOUSE_CONTEXT``, or the context in use."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import click

from keyhouse.base.errors import KeyhouseError, Problem
from keyhouse.cli.parser import Option, WrongUsageError
from keyhouse.client import contexts


def not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return ``value``; refuse an explicit "", which may be an unset variable of a shell.

    An empty value with the meaning "not given" would let the command use the current context.
    """
    source = context.get_parameter_source(parameter.name or "")
    if value or source is None or source.name != "COMMANDLINE":
        return value
    raise click.BadParameter("the value is empty: omit it for the context in use")


CONNECTION: Final = "Connection"
"""The section of the help for options with the coordinator's address."""


def known_contexts() -> list[str]:
    """Return the names of all contexts for shell completion; none if the file is unreadable."""
    try:
        return [*contexts.read(contexts.contexts_path()).contexts, "none"]
    except (KeyhouseError, OSError):  # a shell shows no error when the user presses Tab
        return []


ContextOption = Annotated[
    str,
    Option(
        "--context",
        metavar="NAME",
        section=CONNECTION,
        check=not_empty,
        complete=known_contexts,
        help="a context of keyhouse context add (default: $KEYHOUSE_CONTEXT, or the context in"
        " use); none: use no context",
    ),
]


@contextmanager
def locating_contexts() -> Iterator[None]:
    """Add line and column to an error of the block about the syntax of the file of contexts.

    Raises ``FileInvalidError`` in place of ``ContextsSyntaxError``.
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
    """Return the context for a command with ``host`` and ``--context``, or None without a context.

    The context in use applies only to its own address. So the result is None if ``host`` differs
    from this address. Raises ``ContextUnusableError`` for an unknown name.
    """
    with locating_contexts():
        selected = contexts.chosen_context(option)
    is_other = selected is not None and selected.is_implied and is_of_another(selected, host)
    return None if is_other else selected


def not_applied(option: str, host: str) -> str:
    """Return the reason why the context in use does not apply to ``host``, or "" if it applies."""
    with locating_contexts():
        selected = contexts.chosen_context(option)
    if selected is None or not selected.is_implied or not is_of_another(selected, host):
        return ""
    return (
        f"the context {selected.name!r} does not apply: its address is {selected.context.address};"
        " omit HOST to use the context"
    )


def require_address(context: contexts.NamedContext, host: str) -> None:
    """Raise ``WrongUsageError`` if ``host`` is given and differs from the context's address."""
    if is_of_another(context, host):
        raise WrongUsageError(
            f"the context {context.name!r} is for {context.context.address}, not for {host}",
            hint="omit HOST, or pass --context none",
        )


def is_of_another(context: contexts.NamedContext, host: str) -> bool:
    """Return whether ``host`` is given and differs from the context's address."""
    if not host or not context.context.address:
        return False
    from keyhouse.client.trust import parse_address

    return parse_address(host) != parse_address(context.context.address)
