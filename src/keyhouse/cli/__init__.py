"""The `keyhouse` command."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line.

    ``serve`` and ``run`` become the programs of the measured enclaves: each has a parser of its
    own and imports nothing of what the other commands show to people.
    """
    command, arguments = sys.argv[1:2], sys.argv[2:]
    if command == ["serve"]:
        from keyhouse.server.__main__ import main as serve

        serve(arguments)
    if command == ["run"]:
        from keyhouse.base.process.isolation import isolate

        isolate("keyhouse.cli", sys.argv[1:], hold=True)
        from keyhouse.base.process.packed_code import packed_file, use_packed_code

        use_packed_code(packed_file("run"))
        from keyhouse.cli.run.command import main as launch

        sys.exit(launch(arguments))
    from keyhouse.cli.commands import run

    run()
