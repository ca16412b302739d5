"""Starts the coordinator: ``python -I -B -m keyhouse.server``, with the options of `serve`."""

import gc
import sys

TYPE_CHECKING = False  # importing typing takes longer than replacing this process
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(arguments: "Sequence[str]") -> "NoReturn":
    """Isolate this process from its environment, serve, and end the process.

    Nothing of the commands for people is imported: this is the program in the measured enclave.
    """
    from keyhouse.base.process.isolation import isolate

    isolate("keyhouse.server", arguments)
    gc.disable()  # the start leaves no garbage in reference cycles; ``serve`` enables it again
    from keyhouse.base.process.packed_code import packed_file, use_packed_code

    use_packed_code(packed_file("serve"))
    from keyhouse.server.process.serve import main as serve

    sys.exit(serve(arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
