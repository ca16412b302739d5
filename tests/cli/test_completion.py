"""What a shell completes: commands, options, contexts, files, and names of the manifest at hand."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.process.command_tree import typed
from support.process.start import KEYHOUSE
from support.process.tool import tool

# Each asks for the completions of the words that it is given, one on a line.
_ASK = {
    "bash": 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _keyhouse_completion keyhouse;'
    " printf '%s\\n' \"${COMPREPLY[@]}\"",
    "zsh": "words=($@); CURRENT=$#; _keyhouse_completion",
    "fish": 'complete -C "$argv"',
}
# zsh completes at its prompt alone; these stand in for what draws there.
_ZSH = """
compdef() { }
compadd() { print -l -- ${(P)@[-1]} }
_describe() { print -l -- ${${(P)3}%%:*} }
"""

CASES = [
    ("manifest s", ["schema", "set", "signature"]),
    ("sta", ["status"]),
    ("install", []),  # not offered
    ("status --att", ["--attestation"]),
    ("status --insec", []),  # not shown
    ("collateral fetch --tee s", ["sgx"]),
    ("context use pr", ["prod"]),
    ("status --context no", ["none"]),
    ("secret get own", ["ownSecret"]),
    ("secret set own", ["ownSecret"]),
    ("recover sign r.json --name al", ["alice"]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a manifest, and contexts."""
    made = tmp_path_factory.mktemp("folder")
    content = {"secrets": {"ownSecret": {}, "other": {}}, "RecoveryKeys": {"alice": ""}}
    (made / "manifest.json").write_text(json.dumps(content))
    added = typed("context", "add", "prod", "--address", "h", env={"XDG_CONFIG_HOME": str(made)})
    assert added.exit_code == 0
    return made


def offered(folder: Path, words: str) -> list[str]:
    """Return what the command answers a shell that asks."""
    ended = typed(
        env={
            "_KEYHOUSE_COMPLETE": "bash_complete",
            "COMP_WORDS": f"keyhouse {words}",
            "COMP_CWORD": str(len(words.split())),
            "XDG_CONFIG_HOME": str(folder),
        }
    )
    assert (ended.exit_code, ended.stderr) == (0, "")
    return sorted(line.partition(",")[2] for line in ended.stdout.splitlines() if line)


@pytest.mark.parametrize(("words", "wanted"), CASES, ids=[words for words, _ in CASES])
def test_words_that_begin_so_are_offered(
    words: str, wanted: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert offered(folder, words) == wanted


@pytest.mark.parametrize("content", ["", "[]", '{"Secrets": []}', "{", '{"secrets": {"s": 1'])
def test_what_cannot_be_read_completes_nothing(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "manifest.json").write_text(content)
    (tmp_path / "keyhouse").mkdir()
    (tmp_path / "keyhouse/contexts.toml").write_text("[")

    assert offered(tmp_path, "secret get s") == []
    assert offered(tmp_path, "context use s") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completes(shell: str, folder: Path) -> None:
    script = folder / f"completion.{shell}"
    script.write_text((_ZSH if shell == "zsh" else "") + typed("completion", shell).stdout)
    ask = folder / f"ask.{shell}"
    ask.write_text(f"source {script}\n{_ASK[shell]}\n")
    words = ["keyhouse", "secret", "get", "own"]
    ended = subprocess.run(
        [tool(shell), ask, *([" ".join(words)] if shell == "fish" else words)],
        cwd=folder,
        env={
            "PATH": f"{Path(KEYHOUSE).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert (ended.stdout.split(), ended.stderr) == (["ownSecret"], "")
