"""Replaces `keyhouse` in shells of the tests: requests a warm process, and waits for the end.

Arguments: the address of the fork server, then the words of the command. A command that cannot be
warm, or that Ctrl-C in its terminal must reach, replaces this process. A test run has hundreds of
starts, so this program imports little.
"""

import os
import socket
import struct
import sys

sys.path[0] = os.path.abspath(f"{__file__}/../../../..")  # noqa: PTH100 pathlib is half of a start

from support.process.warm.request import may_be_warm, send_request  # noqa: E402 as of now

_KEYHOUSE = os.path.join(os.path.dirname(sys.executable), "keyhouse")  # noqa: PTH118, PTH120 as above
_IN_PERSON = (["serve"], ["run"], ["dev"])
# Variables that a shell sets by itself, and that Python sets without a locale.
_OF_SHELLS = frozenset({"PATH", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"})


def main() -> int:
    """Run the command; return the exit code, for a signal as a shell reports it."""
    address, *typed = sys.argv[1:]
    others = {name: value for name, value in os.environ.items() if name not in _OF_SHELLS}
    if typed[:1] in _IN_PERSON or not may_be_warm(typed, others):
        os.execv(_KEYHOUSE, [_KEYHOUSE, *typed])  # noqa: S606 the command of the shell
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(address)
        folder = os.getcwd()  # noqa: PTH109 as above
        ends = send_request(connection, [_KEYHOUSE, *typed], os.environ, folder, (0, 1, 2))
    with open(ends, "rb") as told:  # noqa: PTH123 a descriptor
        _, code = struct.unpack("ii", told.read())
    return int(code) if code >= 0 else 128 - int(code)


if __name__ == "__main__":
    sys.exit(main())
