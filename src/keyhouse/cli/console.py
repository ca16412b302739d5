"""`keyhouse console`: show deployments in a browser to the people who approve updates."""

import sys
import webbrowser
from collections.abc import Callable
from typing import Annotated, Final

from keyhouse.base.errors import RefusedError
from keyhouse.cli.options.context_option import known_contexts, not_empty
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser.command import AsJson, command
from keyhouse.cli.parser.parameters import Option
from keyhouse.client.contexts import chosen_context


class ConsoleMissingError(RefusedError):
    """The packages of the console are not installed."""

    code = "console-missing"


_EXTRA: Final = frozenset({"jinja2", "starlette", "uvicorn"})


@command
def console(
    context: Annotated[
        str,
        Option(
            "--context",
            metavar="NAME",
            check=not_empty,
            complete=known_contexts,
            help="the first context (default: $KEYHOUSE_CONTEXT, or the context in use)",
        ),
    ] = "",
    port: Annotated[
        int, Option("--port", range=(0, 65535), help="port on 127.0.0.1; 0: a free port")
    ] = 0,
    idle: Annotated[
        int,
        Option(
            "--idle",
            metavar="SECONDS",
            range=(60, 86_400),
            help="lock the console after this time without use",
        ),
    ] = 900,
    *,
    read_only: Annotated[
        bool, Option("--read-only", help="only show deployments: read no key, and change nothing")
    ] = False,
    no_browser: Annotated[
        bool, Option("--no-browser", help="print the link without opening a browser")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show deployments in a browser, and approve updates.

    The console shows the deployments of your contexts, and uses the keys in your contexts. It
    verifies each coordinator first. The console listens on 127.0.0.1 only, and accepts only
    programs of your user. Ctrl-C ends the console.

    Example: keyhouse console --read-only
    """
    chosen_context(context)  # a wrong name is refused now, and not on the first page
    serve = _load_server()
    print_link = _link_printer(opens=not (no_browser or as_json), as_json=as_json)
    serve(first=context, port=port, idle=idle, read_only=read_only, print_link=print_link)


def _load_server() -> Callable[..., None]:
    """Return the function that serves the console, ``keyhouse.console.serve.serve``.

    Raises ``ConsoleMissingError`` if a package of the extra ``console`` is not installed.
    """
    try:
        from keyhouse.console.serve import serve
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA:
            raise
        raise ConsoleMissingError(
            f"the console needs the package {missing.name}, which is not installed",
            hint="in a clone of Keyhouse, run scripts/setup runtime; elsewhere, install the"
            " extra console",
        ) from None
    return serve


def _link_printer(*, opens: bool, as_json: bool) -> Callable[[str], None]:
    """Return a function that prints a link to the console: as text, or ``as_json`` as an object.

    With ``opens``, the function also opens the first link in a browser.
    """
    printed: list[str] = []

    def print_link(link: str) -> None:
        if as_json:
            show_json({"link": link})
        elif printed:
            sys.stdout.write(f"locked; a new link: {link}\n")
        else:
            sys.stdout.write(f"{link}\nThe link works once. Ctrl-C ends the console.\n")
        sys.stdout.flush()
        if opens and not printed:
            webbrowser.open(link)
        printed.append(link)

    return print_link
