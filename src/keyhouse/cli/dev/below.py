"""A process below this one: heard line by line, and ended with it."""

import ctypes
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from keyhouse.base.process.threads import start_without_signals

_PR_SET_PDEATHSIG: Final = 1
_ENDING: Final = 15.0  # seconds for an end in order; longer than the coordinator's own grace


@contextmanager
def process_below(
    words: Sequence[str], hear: Callable[[bytes], None], folder: Path | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run ``words`` in ``folder`` while the context lasts; ``hear`` each line of its output.

    ``hear`` is called on another thread, at last with no bytes. Ctrl-C on the terminal is for this
    process alone, which then ends that one.
    """
    process = subprocess.Popen(  # noqa: S603 our own interpreter and words
        words,
        preexec_fn=_ends_with_this_process(),  # noqa: PLW1509 a system call, and nothing else
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    reader = threading.Thread(target=_listen, args=(process, hear))
    try:
        start_without_signals(reader)
        yield process
    finally:
        _end(process)
        reader.join()


def _ends_with_this_process() -> Callable[[], None]:
    """Return what makes a child get SIGTERM when this process ends, in whatever way."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return ask


def _listen(process: "subprocess.Popen[bytes]", hear: Callable[[bytes], None]) -> None:
    source = process.stdout
    assert source is not None  # noqa: S101 it was asked for
    with source:
        for line in source:
            hear(line)
    hear(b"")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
