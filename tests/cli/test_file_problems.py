"""What is wrong with a file that a command reads: its name, the line, the reason, exit code 1."""

import json
from pathlib import Path

import pytest
from support.process.command import run

_COMMA = b'{\n  "CANARY": 1,\n}\n'
_SHOWN = """\
error: FILE: 1 problem
FILE:2:14: error: invalid JSON: a comma too many
     2 |   "CANARY": 1,
       |              ^
  hint: remove the comma
"""
_HIDDEN = """\
error: FILE: 1 problem
FILE:2:14: error: invalid JSON: a comma too many
  hint: remove the comma
"""
_HOST = "localhost:1"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("manifest", "check", "FILE"), _SHOWN),
        (("manifest", "convert", "FILE"), _SHOWN),
        (("manifest", "signature", "FILE"), _SHOWN),
        (("manifest", "set", "FILE", _HOST, "--attestation", "a.json"), _SHOWN),
        (("manifest", "diff", "FILE", "FILE"), _SHOWN),
        (("dev", "--manifest", "FILE"), _SHOWN),
        (("collateral", "show", "FILE"), _SHOWN),
        (("collateral", "check", "FILE"), _SHOWN),
        (("attest", "explain", "FILE", "--manifest", "FILE", "--collateral", "FILE"), _SHOWN),
        (("manifest", "get", _HOST, "--attestation", "FILE", "--collateral", "FILE"), _SHOWN),
        (("secret", "set", "FILE", _HOST, "--attestation", "a", "-c", "c", "-k", "k"), _HIDDEN),
        (("recover", "sign", "FILE", "--pkcs11-config", "FILE", "--pkcs11-key-id", "a1"), _HIDDEN),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_every_command_says_where_a_file_is_invalid(
    words: tuple[str, ...], shown: str, tmp_path: Path
) -> None:
    (tmp_path / "wrong.json").write_bytes(_COMMA)

    ended = run(*(word.replace("FILE", "wrong.json") for word in words), folder=tmp_path)

    assert (ended.code, ended.out, ended.err) == (1, "", shown.replace("FILE", "wrong.json"))


def test_what_is_unknown_in_a_file_stands_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"UniqueID":\n "00",\n "Debugg": true}')

    ended = run("manifest", "get", _HOST, "--attestation", "a.json", folder=tmp_path)

    assert (ended.code, ended.err.splitlines()[1:]) == (
        1,
        [
            "a.json:3:2: error: Debugg: unknown field",
            '     3 |  "Debugg": true}',
            "       |  ^^^^^^^^",
            "  hint: did you mean Debug?",
        ],
    )


@pytest.mark.parametrize(
    "words",
    [
        ("attest", "explain", "FILE"),
        ("collateral", "fetch", "FILE", "--pccs", "https://localhost:1"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_every_command_names_a_file_that_is_not_a_quote(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "wrong.quote").write_bytes(b"\xff\xfe")

    ended = run(*(word.replace("FILE", "wrong.quote") for word in words), folder=tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: wrong.quote: the quote is malformed: ")
    assert "hint: pass the file with the quote, binary or base64" in ended.err


def test_a_program_gets_code_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_bytes(_COMMA)

    ended = run("collateral", "show", "wrong.json", "--json", folder=tmp_path)

    error = json.loads(ended.err)["error"]
    assert (ended.code, error["code"]) == (1, "collateral-refused")
    assert [(each["line"], each["column"]) for each in error["problems"]] == [(2, 14)]


def test_the_file_of_contexts_is_shown_where_it_is_no_toml(tmp_path: Path) -> None:
    folder = tmp_path / "keyhouse"
    folder.mkdir()
    (folder / "contexts.toml").write_text('current = "a"\n[contexts.a\n')

    ended = run("context", "list", env={"XDG_CONFIG_HOME": str(tmp_path)})

    assert ended.code == 1
    assert (
        f"{folder}/contexts.toml:2:12: error: the file is not valid TOML\n     2 | [contexts.a\n"
        in ended.err
    )
