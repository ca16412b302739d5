"""Start the launcher: ``python -I -B -m keyhouse.launcher``, with the options of `run`."""

import sys

TYPE_CHECKING = False  # importing typing takes longer than replacing this process
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(arguments: "Sequence[str]") -> "NoReturn":
    """Isolate this process from its environment, and run the launcher (``launcher.command.main``).

    A workload's enclave runs this file, so the file imports no commands for people.
    """
    from keyhouse.base.process.isolation import isolate

    isolate("keyhouse.launcher", arguments, hold=True)
    from keyhouse.base.process.packed_code import packed_file, use_packed_code

    use_packed_code(packed_file("run"))
    from keyhouse.launcher.command import main as launch

    sys.exit(launch(arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
