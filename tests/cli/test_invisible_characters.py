"""Invisible characters in manifests: warnings with line and code point, and escaped output."""

import json
from pathlib import Path

import pytest
from support.process.command import run

from keyhouse.cli.manifest.invisible_characters import invisible_warnings
from keyhouse.cli.output.source_text import SourceText
from keyhouse.manifest.source.json_source import json_places
from keyhouse.views.visible import listed

CHARACTERS = {
    "\u202e": "U+202E (RIGHT-TO-LEFT OVERRIDE)",
    "\u2066": "U+2066 (LEFT-TO-RIGHT ISOLATE)",
    "\u200b": "U+200B (ZERO WIDTH SPACE)",
    "\ufeff": "U+FEFF (ZERO WIDTH NO-BREAK SPACE)",
    "\u00ad": "U+00AD (SOFT HYPHEN)",
    "\u3164": "U+3164 (HANGUL FILLER)",
}
_PACKAGE = {"UniqueID": "ab" * 32}


@pytest.mark.parametrize(("char", "named"), CHARACTERS.items())
@pytest.mark.parametrize("ascii_only", [False, True], ids=["as-is", "escaped"])
def test_check_warns_of_a_name_with_its_line_and_code_point(
    char: str, named: str, *, ascii_only: bool, tmp_path: Path
) -> None:
    name = f"a{char}b"
    manifest = {"Packages": {name: _PACKAGE}, "Marbles": {"web": {"Package": name}}}
    written = json.dumps(manifest, indent=1, ensure_ascii=ascii_only)
    (tmp_path / "m.json").write_text(written)

    ended = run("manifest", "check", "m.json", folder=tmp_path)

    assert ended.code == 0, ended.err
    assert ended.err.startswith("m.json:3:3: warning: Packages[")
    assert f"is a name with {named}" in ended.err
    assert char not in ended.err + ended.out


def test_check_warns_of_values_and_of_comments(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        f"# safe \u202e\nPackages:\n  app:\n    UniqueID: {'ab' * 32}\n"
        'Marbles:\n  web:\n    Package: app\n    Parameters:\n      Argv: ["a\u200b\u2066"]\n'
    )

    ended = run("manifest", "check", "m.yaml", folder=tmp_path)

    assert ended.code == 0, ended.err
    assert "line 1 holds U+202E (RIGHT-TO-LEFT OVERRIDE)" in ended.err
    assert "m.yaml:9:14: warning: Marbles.web.Parameters.Argv[0]: holds U+200B" in ended.err
    assert "U+2066 (LEFT-TO-RIGHT ISOLATE)" in ended.err
    assert not set(CHARACTERS) & set(ended.err)


def test_line_ends_in_a_value_and_other_scripts_cause_no_warning() -> None:
    raw = json.dumps({"a": "one\n\ttwo\r\n", "Zoë": "שלום"}, ensure_ascii=False).encode()
    assert invisible_warnings(raw, SourceText("m", raw, json_places(raw))) == []


def test_lists_quote_names_that_are_not_plain_words() -> None:
    assert listed(["alice", "bob@example.com"]) == "alice, bob@example.com"
    assert listed(["a, b", "c"]) == '"a, b", c'
    assert listed(['"', "x\u202ey", "a\nb", ""]) == r'"\"", "x\u202ey", "a\nb", ""'
