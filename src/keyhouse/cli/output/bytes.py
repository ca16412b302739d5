"""Bytes as a command gives them: to standard output as they are, or to a new file."""

import sys

from keyhouse.cli.output.new_file import NewFile

__all__ = ["write_output"]


def write_output(content: bytes, path: str = "") -> None:
    """Write ``content`` to the new file ``path`` (0600), or to standard output, byte for byte.

    ``""`` and ``-`` are standard output.

    Raises ``FileUnwritable`` if the file is there already or cannot be written.
    """
    if path not in {"", "-"}:
        NewFile(path).write(content)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    if sys.stdout.isatty() and not content.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
