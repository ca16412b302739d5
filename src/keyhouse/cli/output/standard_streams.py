"""Replacements for standard streams that are closed at the start of a command."""

import os
import sys


def stand_in_streams() -> None:
    """Replace the standard streams that are closed at the start of a command.

    Standard input is empty, and standard error is discarded. A write to standard output fails like
    a write to a full disk, so a caller never believes that the data was delivered.
    """
    if sys.stdin is None:
        _null(0, os.O_RDONLY)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 for good
    if sys.stdout is None:
        _null(1, os.O_RDONLY)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        _null(2, os.O_WRONLY)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _null(descriptor: int, mode: int) -> None:
    """Open the null device as ``descriptor``, also for programs that this process executes."""
    handle = os.open(os.devnull, mode)
    if handle == descriptor:
        os.set_inheritable(handle, True)  # noqa: FBT003 the standard library's way
    else:
        os.dup2(handle, descriptor)
        os.close(handle)
