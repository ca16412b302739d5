"""Run a coordinator that records its function calls, by `python -I -B recorder.py SOCKET ...`.

SOCKET is the descriptor of a connected socket. The line ``begin`` on this socket starts a
recording. The line ``end`` ends the recording; the answer is one line, a JSON object with the
called functions by module, in the order of their first calls. All further arguments are arguments
of ``python -m keyhouse.server``.

The profile function of Python reports each call in each thread, also of a resumed coroutine. The
recording omits code inside an import: modules, class bodies, and functions called by this code.
"""

import inspect
import json
import socket
import sys
import threading
from types import FrameType
from typing import Any, Final

_PACKAGE: Final = "keyhouse."


class Recorder:
    """The called functions of Keyhouse between ``begin`` and ``end``."""

    def __init__(self) -> None:
        # A dictionary keeps the order of the first calls.
        self._called: dict[tuple[str, str], None] = {}
        self._is_recording = False
        self._thread = threading.local()

    def begin(self) -> None:
        """Start a recording."""
        self._called = {}
        self._is_recording = True

    def end(self) -> dict[str, list[str]]:
        """End the recording, and return the called functions by module."""
        self._is_recording = False
        found: dict[str, list[str]] = {}
        for module, function in list(self._called):
            found.setdefault(module, []).append(function)
        return found

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Process an event of a thread, as the function of ``sys.setprofile``."""
        if event not in {"call", "return"}:
            return
        code = frame.f_code
        if not code.co_flags & inspect.CO_OPTIMIZED:  # a module or a class body
            depth = getattr(self._thread, "depth", 0)
            self._thread.depth = depth + (1 if event == "call" else -1)
        elif code.co_name == "__annotate__":  # Python 3.14 evaluates annotations in it (PEP 649)
            return
        elif self._is_recording and event == "call" and not getattr(self._thread, "depth", 0):
            module = frame.f_globals.get("__name__", "")
            if module.startswith(_PACKAGE):
                self._called.setdefault((module, code.co_qualname))


def _answer(recorder: Recorder, control: socket.socket) -> None:
    with control, control.makefile("rw", encoding="ascii") as lines:
        for line in lines:
            found: dict[str, list[str]] = {}
            if line == "begin\n":
                recorder.begin()
            else:
                found = recorder.end()
            lines.write(json.dumps(found) + "\n")
            lines.flush()


def main(descriptor: str, arguments: list[str]) -> None:
    """Record from the first function of the coordinator on, until ``end``."""
    recorder = Recorder()
    recorder.begin()
    control = socket.socket(fileno=int(descriptor))
    # This thread starts before the profile function is set, so the recording omits its calls.
    threading.Thread(target=_answer, args=(recorder, control), daemon=True).start()
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    from keyhouse.server.__main__ import main as serve

    serve(arguments)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
