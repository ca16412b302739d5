"""The recording of the session for ``terminal``: a real ``keyhouse dev`` with shop and console.

A second terminal runs the commands. Both terminals have 60 columns. ``scripts/pictures --record``
makes the recording. All files are in a temporary directory. The recording omits the next commands
that ``keyhouse dev`` prints, and the line ``context:`` of a command. The default ports must be
free.
"""

import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Final

import msgspec

from pictures.terminal import RECORDED, Line

__all__ = ["record"]

_COLUMNS: Final = 60
_DEV, _USER = 0, 1
_COMMANDS: Final = (
    "keyhouse secret get greeting --show",
    "keyhouse secret get payroll --show",
    "curl --cacert keyhouse-example/root.pem -d '' \\\n    https://localhost:8443/apples",
    "curl --insecure https://localhost:8444/apples",
    "keyhouse workload list",
)
_READY: Final = ("joined    orders", "joined    stock", "serving", "The link works once")
_TOKEN: Final = re.compile("token=[A-Za-z0-9_-]+")


def record() -> None:
    """Record the session, and write the typed and printed lines."""
    with tempfile.TemporaryDirectory(prefix="keyhouse-", dir="/tmp") as place:
        folder = Path(place)
        lines = list(_played(folder))
    RECORDED.write_bytes(msgspec.json.format(msgspec.json.encode(lines), indent=1) + b"\n")


def _played(folder: Path) -> Iterator[Line]:
    with _terminal(("keyhouse", "dev", "--example", "--console"), folder) as (screen, _):
        for number, text in enumerate(_started(screen)):
            yield Line(_DEV, text, 1.0 if number == 0 else 0.02)
        for command in _COMMANDS:
            first, *more = command.splitlines()
            yield Line(_USER, first, 1.2, typed=True)
            for text in more:
                yield Line(_USER, f"  {text.strip()}", 0.05, typed=True)
            for number, text in enumerate(_answer(command, folder)):
                yield Line(_USER, text, 0.5 if number == 0 else 0.03)
            yield Line(_USER, "", 0.0)
            for text in _waiting(screen):
                yield Line(_DEV, text, 0.1)


def _started(screen: int) -> list[str]:
    shown = ""
    while not all(each in _plain(shown) for each in _READY):
        shown += os.read(screen, 65536).decode()
    if "is in use: " in shown:
        raise SystemExit("error: a default port is in use; 4433 and 2001 must be free")
    before, _, after = shown.partition("next, in another terminal")
    _, _, happened = after.partition("Events:")
    return [*_lines(before), "", *_lines(_TOKEN.sub("token=...", happened))]


def _plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


def _waiting(screen: int) -> list[str]:
    os.set_blocking(screen, False)
    try:
        return _lines(os.read(screen, 65536).decode())
    except BlockingIOError:
        return []
    finally:
        os.set_blocking(screen, True)


def _answer(command: str, folder: Path) -> list[str]:
    shown = b""
    with _terminal(("sh", "-c", command), folder) as (screen, process):
        while True:
            try:
                shown += os.read(screen, 65536)
            except OSError:  # the program has closed the terminal
                break
        process.wait()
    return _lines(shown.decode())


def _lines(shown: str) -> list[str]:
    """Return the final lines of a terminal, without overwritten text, and with long lines split."""
    found = []
    for text in shown.replace("\r\n", "\n").strip("\n").split("\n"):
        kept = text.rpartition("\r")[2]
        if kept.startswith("context: "):
            continue
        # The lines of Keyhouse fit. Lines of further programs have no colours, so a split is safe.
        while len(_plain(kept)) > _COLUMNS:
            found.append(kept[:_COLUMNS])
            kept = kept[_COLUMNS:]
        found.append(kept)
    return found


@contextmanager
def _terminal(
    words: tuple[str, ...], folder: Path
) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    """Run a program on a new terminal; yield the terminal and the process."""
    screen, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 40, _COLUMNS, 0, 0))
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }
    with subprocess.Popen(  # noqa: S603 fixed words
        words,
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        try:
            yield screen, process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait()
            os.close(screen)
