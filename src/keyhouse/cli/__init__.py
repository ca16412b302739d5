"""The `keyhouse` command."""

import gc
import sys

TYPE_CHECKING = False  # typing is not imported by a process that is only to be replaced
if TYPE_CHECKING:
    from keyhouse.base.errors import KeyhouseError

__all__ = ["main"]


def main() -> None:
    """Run the command line.

    ``serve`` and ``run`` are the measured processes: each has a parser of its own and imports
    nothing of what the other commands show to people.
    """
    if sys.argv[1:2] == ["serve"]:
        from keyhouse.base.process.isolation import isolate

        isolate("keyhouse.cli", sys.argv[1:])
        gc.disable()  # the start makes no garbage that is in cycles; ``serve`` ends this
        from keyhouse.base.process.packed_code import packed_file, use_packed_code

        use_packed_code(packed_file("serve"))
        from keyhouse.server.process.serve import main as serve

        sys.exit(serve(sys.argv[2:], _explained))
    if sys.argv[1:2] == ["run"]:
        from keyhouse.base.process.isolation import isolate

        isolate("keyhouse.cli", sys.argv[1:], hold=True)
        from keyhouse.base.process.packed_code import packed_file, use_packed_code

        use_packed_code(packed_file("run"))
        from keyhouse.cli.run.command import main as launch

        sys.exit(launch(sys.argv[2:]))
    from keyhouse.cli.commands import run

    run()


def _explained(error: "KeyhouseError") -> str:
    """Return the lines for an error that ended ``serve``.

    An invalid startup manifest is shown where it is wrong, as the other commands show it. The
    coordinator itself reads no manifest for people, so this is done when it has ended.
    """
    from keyhouse.base.process.error_text import error_text
    from keyhouse.server.process.startup_manifest import StartupInvalidError

    if not isinstance(error, StartupInvalidError):
        return error_text(error)
    from keyhouse.cli.output.show import coloured
    from keyhouse.cli.output.source_text import FileInvalidError, located

    shown = located(error, str(error.file), error.raw, is_secret=False)
    assert isinstance(shown, FileInvalidError)  # noqa: S101 an invalid manifest has problems
    return shown.text(colour=coloured(sys.stderr))
