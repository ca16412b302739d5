"""The output of the demo for a person: steps, commands, answers and checked results."""

import sys
import termios
import textwrap
import tty
from typing import Final, TextIO

__all__ = ["WIDTH", "Screen", "UnexpectedError"]

WIDTH: Final = 100
_INDENT: Final = "  "
_BOLD, _DIM, _GREEN, _CYAN = "1", "2", "32", "36"


class UnexpectedError(Exception):
    """A claim of the demo is false. The text names the claim for a person."""


class Screen:
    """Writes to ``out``. With ``pause``, waits for a key before each step."""

    def __init__(self, out: TextIO, *, colour: bool, pause: bool = False) -> None:
        self._out = out
        self._colour = colour
        self._pause = pause
        self._number = 0

    def step(self, title: str, what: str) -> None:
        """Begin the next step. ``what`` describes the step in one or two sentences."""
        self.wait("Enter: next step   a: all further steps   q: quit ")
        self._number += 1
        rule = "-" * (WIDTH - len(title) - len(str(self._number)) - 7)
        self._out.write(
            "\n"
            + self._styled(_BOLD, f"--- {self._number}. {title} ")
            + self._styled(_DIM, rule)
            + "\n"
        )
        self.say(what)

    def wait(self, what: str) -> None:
        """With pauses: write ``what``, and wait for a key. The key ``a`` ends the pauses.

        Raises:
            KeyboardInterrupt: the key was ``q``.
        """
        if not self._pause:
            return
        self._out.write("\n" + self._styled(_DIM, what))
        self._out.flush()
        key = _key()
        self._out.write("\n")
        if key == "q":
            raise KeyboardInterrupt
        self._pause = key not in {"a", ""}  # empty: the end of the input

    def say(self, text: str = "") -> None:
        """Write wrapped prose; without ``text`` an empty line."""
        self._wrapped(text, _INDENT, _INDENT)

    def command(self, line: str) -> None:
        """Show a command as typed by a person. ``line`` may have several lines."""
        first, *rest = line.splitlines()
        self._out.write("\n" + _INDENT + self._styled(_CYAN, f"$ {first}") + "\n")
        for more in rest:
            self._out.write(_INDENT + self._styled(_CYAN, f"  {more}") + "\n")
        self._out.flush()

    def answer(self, text: str) -> None:
        """Show an answer. A long line continues in the next line."""
        for line in text.splitlines():
            deeper = " " * (len(line) - len(line.lstrip()) + 2)
            self._wrapped(line, _INDENT * 2, _INDENT * 2 + deeper)

    def holds(self, claim: bool, text: str) -> None:  # noqa: FBT001 (the claim is the subject)
        """Write ``text`` as a checked result. ``claim`` is the result of the check.

        Raises:
            UnexpectedError: ``claim`` is false.
        """
        if not claim:
            raise UnexpectedError(f"this does not hold: {text}")
        mark = self._styled(_GREEN, "OK")
        self._wrapped(text, f"{_INDENT}{mark} ", _INDENT + "   ")
        self._out.flush()

    def _wrapped(self, text: str, first: str, further: str) -> None:
        lines = textwrap.wrap(
            text,
            WIDTH - len(further),
            break_on_hyphens=False,
            drop_whitespace=True,
            replace_whitespace=False,
        )
        head, *rest = lines or [""]
        self._out.write(f"{first}{head}".rstrip() + "\n")
        for line in rest:
            self._out.write(f"{further}{line}\n")

    def _styled(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


def _key() -> str:
    """Wait for a key; return the key.

    If the input is not a terminal, return the first character of the next line, or "" at the end.
    """
    if not sys.stdin.isatty():
        return sys.stdin.readline()[:1]
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        # In this mode Ctrl-C still interrupts. TCSADRAIN discards no typed key.
        tty.setcbreak(keyboard, termios.TCSADRAIN)
        return sys.stdin.read(1)
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
