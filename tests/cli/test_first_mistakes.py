"""Frequent first mistakes: a wrong folder for a store, a line end in a value, an early Ctrl-C."""

import stat
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from support.process.command_tree import typed

from keyhouse.cli import commands, main
from keyhouse.cli.secret import SingleSecret


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_folder_without_a_store_is_refused_before_its_mode(command: str, tmp_path: Path) -> None:
    wrong = tmp_path / "open"
    wrong.mkdir()
    wrong.chmod(0o1777)

    ended = typed(command, str(wrong), str(tmp_path / "new"))

    assert ended.exit_code == 1
    assert ended.stderr.startswith(f"error: there is no store in {wrong}\n")
    assert "chmod" not in ended.stderr
    assert stat.S_IMODE(wrong.stat().st_mode) == 0o1777
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("piped", "warns"), [(b"hello\n", True), (b"hello", False), (b"a\nb", False)]
)
def test_line_end_of_a_piped_value_is_stored_with_a_warning(
    piped: bytes,
    *,
    warns: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(piped)))

    value = SingleSecret(value="-").read_value("greeting")

    assert value is not None
    assert value.reveal() == piped
    assert ("ends with a line end" in capsys.readouterr().err) is warns


def test_early_interrupt_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run", interrupt)
    monkeypatch.setattr(sys, "argv", ["keyhouse", "status"])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")


def test_name_of_a_secret_in_place_of_a_file_gets_the_option_as_a_hint() -> None:
    words = ("h", "--attestation", "a.json", "--cert", "a.crt", "--key", "a.key")
    ended = typed("secret", "set", "greeting", *words)

    assert ended.stderr == (
        "error: cannot read greeting: no such file or directory\n"
        'hint: if "greeting" is a secret, add --value - or --from-file FILE\n'
    )
