"""What every command has: an example in its help, ``--json``, and one way to end for each error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.process.command import run
from support.process.command_tree import Leaf, leaves, typed
from support.samples.deployment import manifest

from keyhouse.base.errors import (
    BrokenError,
    InvalidError,
    KeyhouseError,
    Problem,
    RefusedError,
    UnavailableError,
)
from keyhouse.cli.parser.command import exit_code
from keyhouse.cli.parser.usage import WrongUsageError
from keyhouse.client import (
    AnswerUnreadableError,
    CallRefusedError,
    ClientSetupError,
    ServiceUnavailableError,
    TrustError,
    UnreachableError,
)

_OWN_PARSER = {"serve", "run"}  # the measured processes: their output is a log
_COMMANDS = [leaf for words, leaf in sorted(leaves().items()) if words not in _OWN_PARSER]


@pytest.mark.parametrize("leaf", _COMMANDS, ids=lambda leaf: leaf.words)
def test_command_prints_json_if_it_is_asked_to(leaf: Leaf) -> None:
    assert "--json" in leaf.shown


@pytest.mark.parametrize("leaf", _COMMANDS, ids=lambda leaf: leaf.words)
def test_help_begins_with_what_it_does_and_an_example(leaf: Leaf) -> None:
    summary, example, *_ = leaf.command.help.split("\n\n")

    assert summary
    assert example.startswith("\b\nExample:\n  ")
    lines = example.splitlines()[2:]
    assert all(len(line) <= 78 for line in lines)
    assert all(line.endswith("\\") for line in lines[:-1])


@pytest.mark.parametrize("words", ["status", "context add", "no-such-command"])
def test_words_that_make_no_command_are_refused_as_one_object(words: str) -> None:
    ended = run(*words.split(), "--no-such-option", "--json")

    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert json.loads(line)["error"]["code"] == "usage"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RefusedError("no"), 1),
        (CallRefusedError(403, "no"), 1),
        (InvalidError("it", [Problem("Packages.a", "is not right")]), 1),
        (ClientSetupError("no"), 1),
        (BrokenError("no"), 1),
        (AnswerUnreadableError("no"), 1),
        (WrongUsageError("no"), 2),
        (UnavailableError("later"), 3),
        (UnreachableError("nobody", sent=False), 3),
        (ServiceUnavailableError("later"), 3),
        (TrustError("no"), 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, KeyhouseError) else "",
)
def test_exit_code_tells_what_kind_of_failure_it_was(error: KeyhouseError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    "words",
    [
        ("manifest", "signature", "m.json"),
        ("manifest", "check", "m.json"),
        ("manifest", "convert", "m.json"),
        ("manifest", "schema"),
        ("manifest", "template", "--package", f"app={'00' * 32}", "--marble", "web"),
        ("context", "list"),
        ("context", "add", "here"),
        ("completion", "bash"),
        ("version",),
    ],
    ids=" ".join,
)
def test_json_is_one_object_on_one_line(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    Path("m.json").write_bytes(manifest())

    (line,) = typed(*words, "--json").stdout.splitlines()

    assert isinstance(json.loads(line), dict)


def test_every_problem_of_a_manifest_is_in_the_object(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"Packages": {"a": {"Debugg": true}}, "Marbels": {}}')

    ended = typed("manifest", "verify", str(tmp_path / "m.json"), "--json")

    assert ended.exit_code == 2  # no coordinator is named, which is told before any file is read
    assert "keyhouse dev" in json.loads(ended.stderr)["error"]["hint"]


@pytest.mark.parametrize("name", ["install", "uninstall", "precheck", "check"])
def test_commands_for_kubernetes_say_where_to_look(name: str) -> None:
    ended = typed(name, "--namespace", "x")

    assert ended.exit_code == 2
    assert "hint: " in ended.stderr
    assert f"\n  {name} " not in typed("--help").stdout


def test_commands_that_need_no_network_import_no_client() -> None:
    program = (
        "import sys; sys.argv = ['keyhouse', 'version']\n"
        "from keyhouse.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = ('httpx', 'keyhouse.client.session', 'keyhouse.coordinator')\n"
        "print([n for n in heavy if n in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert ended.stdout.splitlines()[-1] == "[]"
