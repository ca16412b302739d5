"""`keyhouse console`: deployments in a browser, for the people who decide about them."""

import sys
import webbrowser
from collections.abc import Callable
from typing import Annotated, Final

from keyhouse.base.errors import RefusedError
from keyhouse.cli.options.context_chosen import known_contexts, not_empty
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser.command import AsJson, command
from keyhouse.cli.parser.parameters import Option


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
            help="begin with this one (default: $KEYHOUSE_CONTEXT, or the one in use)",
        ),
    ] = "",
    port: Annotated[
        int, Option("--port", range=(0, 65535), help="of 127.0.0.1, the only address; 0: any")
    ] = 0,
    idle: Annotated[
        int,
        Option(
            "--idle", metavar="SECONDS", range=(60, 86_400), help="lock after so long without use"
        ),
    ] = 900,
    *,
    read_only: Annotated[
        bool, Option("--read-only", help="show only: no key is read, nothing can be changed")
    ] = False,
    no_browser: Annotated[
        bool, Option("--no-browser", help="print the link, and open no browser")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show deployments in a browser, and decide there.

    It shows what your contexts name, with the keys that they name. Each coordinator is verified
    first. The console listens on this machine only, for your programs only, and ends with Ctrl-C.

    Example: keyhouse console --read-only
    """
    serve = _serving()
    tell = _telling(opens=not (no_browser or as_json), as_json=as_json)
    serve(first=context, port=port, idle=idle, read_only=read_only, tell=tell)


def _serving() -> Callable[..., None]:
    """Return what serves the console. Raises ``ConsoleMissingError`` without the extra."""
    try:
        from keyhouse.console.serve import serve
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA:
            raise
        raise ConsoleMissingError(
            f"the console needs {missing.name}",
            hint="in a clone of Keyhouse: pip install '.[console]'",
        ) from None
    return serve


def _telling(*, opens: bool, as_json: bool) -> Callable[[str], None]:
    """Return what prints each link; the first one is opened in a browser if ``opens``."""
    told: list[str] = []

    def tell(link: str) -> None:
        if as_json:
            show_json({"link": link})
        elif told:
            sys.stdout.write(f"locked; a new link: {link}\n")
        else:
            sys.stdout.write(f"{link}\nThe link works once. Ctrl-C ends the console.\n")
        sys.stdout.flush()
        if opens and not told:
            webbrowser.open(link)
        told.append(link)

    return tell
