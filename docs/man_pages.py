"""Write the man pages of all commands into a folder; `scripts/man` runs this program.

The folder has a page for each single command and for each group: ``keyhouse-manifest.1``.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from keyhouse import __version__
from keyhouse.cli.commands import ROOT
from keyhouse.cli.parser.command import EXIT_CODES


def pages() -> dict[str, str]:
    """Return the text of each page by its file's name."""
    commands = _shown(ROOT)
    below = {f"keyhouse-{name}.1": _page(f"keyhouse {name}", one) for name, one in commands.items()}
    return {"keyhouse.1": _first(ROOT.help or "", commands), **below}


def _first(summary: str, commands: dict[str, Any]) -> str:
    lines = [*_head("keyhouse", summary), ".SH COMMANDS"]
    for name, one in commands.items():
        lines += [".TP", rf"\fBkeyhouse\-{_escaped(name)}\fR(1)", _escaped(_summary(one))]
    lines += [".SH EXIT STATUS"]
    for code, meaning in EXIT_CODES.items():
        lines += [".TP", str(code), _escaped(meaning)]
    return "\n".join(lines) + "\n"


def _page(words: str, command: Any) -> str:
    lines = _head(words, _summary(command))
    for name, one in _leaves(words, command):
        lines += [f'.SH "{_escaped(name.upper())}"', ".nf", _escaped(_usage(name, one)), ".fi"]
        lines += _help(one.help or "")
        lines += _options(one)
    lines += [".SH SEE ALSO", r"\fBkeyhouse\fR(1)"]
    return "\n".join(lines) + "\n"


def _head(words: str, summary: str) -> list[str]:
    name = words.replace(" ", "-")
    version = f"keyhouse {__version__}"
    return [
        f'.TH "{_escaped(name.upper())}" "1" "" "{version}" "Keyhouse"',
        ".SH NAME",
        rf"{_escaped(name)} \- {_escaped(summary.rstrip('.'))}",
    ]


def _leaves(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(command, click.Group):
        yield words, command
        return
    for name, one in _shown(command).items():
        yield from _leaves(f"{words} {name}", one)


def _shown(group: click.Group) -> dict[str, click.Command]:
    """Return the commands of a group that its help shows."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: one for name, one in found.items() if one is not None and not one.hidden}


def _usage(words: str, command: Any) -> str:
    with click.Context(command, info_name=words) as context:
        return f"{words} {' '.join(command.collect_usage_pieces(context))}"


def _summary(command: Any) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def _help(text: str) -> list[str]:
    """Return paragraphs; a paragraph that begins with a backspace is literal."""
    lines = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b"):
            lines += [".PP", ".nf", *map(_escaped, paragraph.splitlines()[1:]), ".fi"]
        else:
            lines += [".PP", _escaped(" ".join(paragraph.split()))]
    return lines


def _options(command: Any) -> list[str]:
    lines = []
    with click.Context(command) as context:
        for one in command.get_params(context):
            record = None if getattr(one, "hidden", False) else one.get_help_record(context)
            if record is not None:
                shown = re.sub(r"\s+", " ", record[1])
                lines += [".TP", rf"\fB{_escaped(record[0])}\fR", _escaped(shown or "(no more)")]
    return lines


def _escaped(text: str) -> str:
    """Return ``text`` escaped for roff: no part of the text is a request."""
    shown = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    shown = shown.replace("'", r"\(aq").replace("`", r"\(ga").replace("~", r"\(ti")
    return "\n".join(rf"\&{line}" if line.startswith(".") else line for line in shown.split("\n"))


def main(folder: Path) -> None:
    """Write all pages into ``folder``; create a missing folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
