"""`keyhouse console`: deployments in a browser, for the people who decide about them."""

import sys
import webbrowser
from typing import Annotated

from keyhouse.base.errors import RefusedError
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser.command import AsJson, command
from keyhouse.cli.parser.parameters import Option


class ConsoleMissingError(RefusedError):
    """The packages of the console are not installed."""

    code = "console-missing"


@command
def console(
    *,
    port: Annotated[
        int, Option("--port", range=(0, 65535), help="of 127.0.0.1, the only address; 0: any")
    ] = 0,
    read_only: Annotated[
        bool, Option("--read-only", help="show only: no key is read, nothing can be changed")
    ] = False,
    no_browser: Annotated[
        bool, Option("--no-browser", help="print the link, and open no browser")
    ] = False,
    idle: Annotated[
        int,
        Option(
            "--idle", metavar="SECONDS", range=(60, 86_400), help="lock after so long without use"
        ),
    ] = 900,
    as_json: AsJson = False,
) -> None:
    """Show deployments in a browser, and decide there.

    It shows what your contexts name, with the keys that they name. Each coordinator is verified
    first. The console listens on this machine only, for your programs only, and ends with Ctrl-C.

    Example: keyhouse console --read-only
    """
    opens = not (no_browser or as_json)
    run_console(port=port, idle=idle, read_only=read_only, opens=opens, as_json=as_json)


def run_console(*, port: int, idle: int, read_only: bool, opens: bool, as_json: bool) -> None:
    """Serve the console until it is ended. ``opens``: the first link is opened in a browser.

    Raises ``ConsoleMissingError`` without the extra.
    """
    try:
        from keyhouse.console.serve import serve
    except ModuleNotFoundError as missing:
        raise ConsoleMissingError(
            f"the console needs {missing.name}", hint="install keyhouse[console]"
        ) from None
    told: list[str] = []

    def tell(link: str) -> None:
        if as_json:
            show_json({"link": link})
        else:
            again = "locked; a new link" if told else "console"
            sys.stdout.write(f"{again}: {link}\n")
            if not told:
                sys.stdout.write("The link works once. Ctrl-C ends the console.\n")
        sys.stdout.flush()
        if opens and not told:
            webbrowser.open(link)
        told.append(link)

    serve(port=port, idle=idle, read_only=read_only, tell=tell)
