"""Words of Vault, kubectl, terraform, step and MarbleRun's tool get the right command as a hint."""

import re

import pytest
from support.process.command_tree import below, leaves, typed

from keyhouse.cli.commands import ROOT
from keyhouse.cli.parser.other_tools import hints

COMMAND = re.compile(r"keyhouse ((?:[a-z]+[a-z-]* ?)+)")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("unseal", "keyhouse recover upload"),
        ("login", "keyhouse context add NAME"),
        ("help", "keyhouse --help"),
        ("get secrets", "keyhouse secret list"),
        ("kv get greeting", "keyhouse secret get NAME"),
        ("apply -f manifest.yaml", "keyhouse manifest set"),
        ("secret put greeting", "keyhouse secret set"),
    ],
)
def test_word_of_another_tool_has_the_command_as_its_hint(words: str, hint: str) -> None:
    ended = typed(*words.split())

    assert ended.exit_code == 2
    assert ended.stderr.startswith("error: unknown command ")
    assert hint in ended.stderr


@pytest.mark.parametrize("hint", sorted({hint for _, _, hint in hints()}))
def test_hint_names_only_commands_that_exist(hint: str) -> None:
    known = below(ROOT)
    for found in COMMAND.findall(hint):
        name, *rest = found.split()
        if found.startswith("does not connect"):  # a sentence about the program
            continue
        assert name in known
        below_name = [words for words in leaves() if words.split()[0] == name]
        if rest and f"{name} {rest[0]}" not in " ".join(below_name):
            assert name in below_name  # the rest of the sentence follows


@pytest.mark.parametrize(("group", "word"), [each[:2] for each in hints()])
def test_word_of_another_tool_is_not_a_command(group: str, word: str) -> None:
    path = f"{group} {word}".removeprefix("keyhouse ")

    assert path not in leaves()
    assert word not in below(ROOT) or " " in path
