"""What a person sees: steps, commands, answers, and what has been checked."""

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
    """Something that the demo claims does not hold. The text says what, for a person."""


class Screen:
    """Writes to ``out``, in colour or not, and waits for a key before each step if it pauses."""

    def __init__(self, out: TextIO, *, colour: bool, pause: bool = False) -> None:
        self._out = out
        self._colour = colour
        self._pause = pause
        self._number = 0

    def step(self, title: str, what: str) -> None:
        """Begin the next step: its number, its title, and in a sentence or two what it does."""
        self.wait("Enter: next step   a: all that follow   q: quit ")
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
        """If it pauses: say ``what``, and wait for a key: ``a`` pauses no more.

        Raises:
            KeyboardInterrupt: it was ``q``.
        """
        if not self._pause:
            return
        self._out.write("\n" + self._styled(_DIM, what))
        self._out.flush()
        key = _key()
        self._out.write("\n")
        if key == "q":
            raise KeyboardInterrupt
        self._pause = key not in {"a", ""}  # nothing more can be typed at the end of a file

    def say(self, text: str = "") -> None:
        """Write prose, wrapped; an empty line if there is none."""
        self._wrapped(text, _INDENT, _INDENT)

    def command(self, line: str) -> None:
        """Show what a person would type; ``line`` may continue in further lines."""
        first, *rest = line.splitlines()
        self._out.write("\n" + _INDENT + self._styled(_CYAN, f"$ {first}") + "\n")
        for more in rest:
            self._out.write(_INDENT + self._styled(_CYAN, f"  {more}") + "\n")
        self._out.flush()

    def answer(self, text: str) -> None:
        """Show what came back. Lines that are too long continue in the next one."""
        for line in text.splitlines():
            deeper = " " * (len(line) - len(line.lstrip()) + 2)
            self._wrapped(line, _INDENT * 2, _INDENT * 2 + deeper)

    def holds(self, claim: bool, text: str) -> None:  # noqa: FBT001 (the claim is the subject)
        """Say ``text``, which ``claim`` has shown to be true.

        Raises:
            UnexpectedError: it is not true.
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
    """Return the key that is pressed, or from a pipe the first of the next line; "" at its end."""
    if not sys.stdin.isatty():
        return sys.stdin.readline()[:1]
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard, termios.TCSADRAIN)  # Ctrl-C still interrupts; no key is lost
        return sys.stdin.read(1)
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
