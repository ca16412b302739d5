"""The `keyhouse` command."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line.

    ``serve`` and ``run`` are the measured processes: each has a parser of its own and imports
    nothing of what the other commands show to people.
    """
    if sys.argv[1:2] == ["serve"]:
        from keyhouse.base.process.isolation import isolate

        isolate("keyhouse.cli", sys.argv[1:])
        from keyhouse.server.process.serve import main as serve

        sys.exit(serve(sys.argv[2:]))
    if sys.argv[1:2] == ["run"]:
        from keyhouse.base.process.isolation import isolate

        isolate("keyhouse.cli", sys.argv[1:], hold=True)
        from keyhouse.cli.run.command import main as launch

        sys.exit(launch(sys.argv[2:]))
    from keyhouse.cli.commands import run

    run()
