"""The `keyhouse` command."""

import sys

__all__ = ["main"]

_INTERRUPTED = 130  # 128 and the number of SIGINT, as shells report it


def main() -> None:
    """Run the command line of this process.

    ``serve`` runs the program ``keyhouse.server``, and ``run`` the program ``keyhouse.launcher``.
    Both programs also run in enclaves, so neither program imports modules of the remaining
    commands. With ``serve --check-config``, ``keyhouse.cli.check_config`` runs in place of the
    program.
    """
    command, arguments = sys.argv[1:2], sys.argv[2:]
    if command == ["serve"] and "--check-config" in arguments:
        from keyhouse.base.process.isolation import isolate

        isolate("keyhouse.cli", sys.argv[1:])
        from keyhouse.cli.check_config import main as check

        check(arguments)
    if command == ["serve"]:
        from keyhouse.server.__main__ import main as serve

        serve(arguments)
    if command == ["run"]:
        from keyhouse.launcher.__main__ import main as launch

        launch(arguments)
    try:
        from keyhouse.cli.commands import run

        run()
    except KeyboardInterrupt:  # during the imports, before the parser handles it
        sys.exit(_INTERRUPTED)
