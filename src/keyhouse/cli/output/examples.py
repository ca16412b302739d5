"""Examples in the help of commands: first after the summary, and fit to be copied."""

import inspect
from typing import Final

__all__ = ["with_example_first"]

_MARK: Final = "Example: "
_WIDTH: Final = 76


def with_example_first(doc: str) -> str:
    """Return a docstring whose paragraphs ``Example: ...`` come second, as a shell takes them."""
    summary, *rest = inspect.cleandoc(doc).split("\n\n")
    examples = [_shell(each) for each in rest if each.startswith(_MARK)]
    others = [each for each in rest if not each.startswith(_MARK)]
    return "\n\n".join([summary, *examples, *others])


def _shell(paragraph: str) -> str:
    r"""Return a block that click does not wrap (``\b``): one command, on lines that go on."""
    words = paragraph.removeprefix(_MARK).split()
    lines = ["  "]
    for word in words:
        if len(lines[-1]) + len(word) > _WIDTH - 2:
            lines[-1] += "\\"
            lines.append("      ")
        lines[-1] += f"{word} "
    return "\n".join(["\b", "Example:", *(line.rstrip() for line in lines)])
