"""Select the context of a command: ``--context``, ``KEYHOUSE_CONTEXT``, or the context in use."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import click

from keyhouse.base.errors import KeyhouseError, Problem
from keyhouse.cli.parser import Option, WrongUsageError
from keyhouse.client import contexts


def not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return ``value``, the value of ``--context``; refuse "" on the command line.

    A user may pass "" by mistake, with an unset variable of the shell. Then the command must not
    use the context in use. ``context`` and ``parameter`` are click's. Raises
    ``click.BadParameter``.
    """
    source = context.get_parameter_source(parameter.name or "")
    if value or source is None or source.name != "COMMANDLINE":
        return value
    raise click.BadParameter("the value is empty; omit the option to use the context in use")


CONNECTION: Final = "Connection"
"""The section of the help for options with the coordinator's address."""


def known_contexts() -> list[str]:
    """Return the names of all contexts, and "none", to complete a value in a shell.

    The result is empty if the file of contexts is unreadable.
    """
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
    """Add line and column to an error of the block about the syntax of the contexts' file.

    Raises ``FileInvalidError`` in place of ``ContextsSyntaxError``.
    """
    try:
        yield
    except contexts.ContextsSyntaxError as error:
        from keyhouse.cli.output.source_text import FileInvalidError, SourceText
        from keyhouse.manifest.source.source_map import SourceMap, Span

        places = SourceMap()
        if error.place is not None:
            places.record("", Span(*error.place))
        source = SourceText(str(error.path), error.content, places)
        raise FileInvalidError(
            source, [Problem("", "the file is not valid TOML", error.hint)], error
        ) from None


def context_for(option: str, host: str = "") -> contexts.NamedContext | None:
    """Return the context of a command, or None without a context.

    ``option`` is the value of ``--context``, and ``host`` the address on the command line; both may
    be "". The context in use applies only to its own address, so the result is None for a different
    ``host``. Raises ``ContextUnusableError`` for an unknown name.
    """
    with locating_contexts():
        selected = contexts.chosen_context(option)
    is_other = selected is not None and selected.is_implied and is_of_another(selected, host)
    return None if is_other else selected


def not_applied(option: str, host: str) -> str:
    """Return the reason, as text, why the context in use does not apply to the address ``host``.

    "" means that the context applies, or that there is no context in use. ``option`` is the value
    of ``--context``.
    """
    with locating_contexts():
        selected = contexts.chosen_context(option)
    if selected is None or not selected.is_implied or not is_of_another(selected, host):
        return ""
    return (
        f"the context {selected.name!r} does not apply: its address is {selected.context.address};"
        " omit HOST to use the context"
    )


def require_address(context: contexts.NamedContext, host: str) -> None:
    """Raise ``WrongUsageError`` if ``host`` differs from the address of ``context``.

    "" for ``host`` means no address on the command line, so there is no difference.
    """
    if is_of_another(context, host):
        raise WrongUsageError(
            f"the context {context.name!r} is for {context.context.address}, not for {host}",
            hint="omit HOST, or pass --context none",
        )


def is_of_another(context: contexts.NamedContext, host: str) -> bool:
    """Return whether ``host`` is not "" and differs from the address of ``context``."""
    if not host or not context.context.address:
        return False
    from keyhouse.client.trust import parse_address

    return parse_address(host) != parse_address(context.context.address)
