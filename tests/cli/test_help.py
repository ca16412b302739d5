"""What the first page and the help of each command show, and how they fit a terminal."""

import click
import pytest
from support.process.command_tree import Leaf, below, leaves, typed
from support.process.terminal import on_a_terminal

from keyhouse.base.process.flags import read_flags
from keyhouse.cli.commands import COMMANDS, ROOT
from keyhouse.cli.parser.help import summary_of

_WIDTH = 80
_LINE = 78  # of a help on a terminal of that width; tests have one that is wider by 2
_OWN_PARSER = {"serve", "run"}
_LEAVES = [leaf for words, leaf in sorted(leaves().items()) if words not in _OWN_PARSER]
_GROUPS = ["", *(name for name, one in below(ROOT).items() if isinstance(one, click.Group))]


@pytest.mark.parametrize("words", _GROUPS)
def test_each_command_of_a_group_has_one_line_that_fits(words: str) -> None:
    text = typed(*words.split(), "--help").stdout

    group = below(ROOT)[words] if words else ROOT
    assert isinstance(group, click.Group)
    lines = text.splitlines()
    assert max(map(len, lines)) <= _LINE
    for rows in getattr(group, "sections")().values():  # noqa: B009 of ours, not of every group
        for name, summary in rows:
            assert any(line.split()[:1] == [name] and line.endswith(summary) for line in lines)


def test_first_page_says_of_a_command_what_its_own_help_says() -> None:
    commands = below(ROOT)
    shown = {entry.name: entry.summary for rows in COMMANDS.values() for entry in rows}

    others = {"serve", "run", *(name for name, summary in shown.items() if not summary)}
    assert {name: summary_of(commands[name]) for name in shown if name not in others} == {
        name: summary for name, summary in shown.items() if name not in others
    }


@pytest.mark.parametrize("leaf", _LEAVES, ids=lambda leaf: leaf.words)
def test_own_options_come_first_and_general_ones_last(leaf: Leaf) -> None:
    text = typed(*leaf.words.split(), "-h").stdout

    assert max(map(len, text.splitlines())) <= _WIDTH
    headings = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    groups = {"Connection:", "Trust:", "User:", "Recovery key:", "Hardware report:", "Cluster:"}
    assert [each for each in headings if each not in groups] == [
        each for each in ("Arguments:", "Options:", "General options:") if each in headings
    ]
    assert headings[-1] == "General options:"
    assert "Options:" not in headings or not groups & set(headings[: headings.index("Options:")])
    assert text.split("General options:\n")[1].split()[-5:] == [
        "-h,",
        "--help",
        "print",
        "this",
        "help",
    ]


@pytest.mark.parametrize("leaf", _LEAVES, ids=lambda leaf: leaf.words)
def test_what_an_option_takes_is_said_in_a_few_words_for_all(leaf: Leaf) -> None:
    context = click.Context(leaf.command)
    taken = {
        each.make_metavar(context)
        for each in leaf.command.params
        if isinstance(each, click.Option) and not each.is_flag and not each.hidden
    }

    assert {metavar for metavar in taken if metavar[0] not in "[{"} <= {
        *("FILE", "DIR", "HOST", "NAME", "NAMES", "URL", "SECONDS", "NUMBER", "LIST", "TIME"),
        *("HEX", "LABEL", "BASE64", "DIGEST", "IP", "HOST:PORT", "-"),
        *("NAME=ID", "NAME=FILE", "NAME[=PACKAGE]", "NAME=TYPE[:BITS]"),
        *("TYPE", "TYPE/UUID", "TEXT"),
    }


@pytest.mark.parametrize("words", ["", "manifest", "manifest update", "status", "secret get"])
def test_version_is_printed_wherever_it_is_asked_for(words: str) -> None:
    assert typed(*words.split(), "--version").stdout == typed("version").stdout


@pytest.mark.parametrize("name", ["serve", "run"])
def test_measured_processes_print_the_version_too(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        read_flags([], ["--version"], usage=f"keyhouse {name}", about="")

    assert capsys.readouterr().out == typed("--version").stdout


def test_headings_are_bold_on_a_terminal_alone() -> None:
    bold = "\x1b[1mGeneral options\x1b[0m:"

    assert bold in on_a_terminal("--help", environment={})[1]
    assert "\x1b" not in on_a_terminal("--help", environment={"NO_COLOR": "1"})[1]
    assert "\x1b" not in typed("--help").stdout
