"""Is `keyhouse` to a shell of the tests: a warm interpreter becomes the process, this waits for it.

Arguments: the address of that interpreter, then what was typed.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])  # this runs as a program, without the test runner

from support.process.start import typed  # noqa: E402 it can be imported from now on

if __name__ == "__main__":
    code = typed(sys.argv[1], sys.argv[2:])
    sys.exit(code if code >= 0 else 128 - code)  # as a shell says it of a signal
