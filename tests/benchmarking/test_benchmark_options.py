"""What the benchmarks are asked for: nought is never taken for "not given"."""

import sys

import pytest
from benchmarks.options import Options


@pytest.mark.parametrize(
    "words",
    [
        ("--seconds", "0"),
        ("--seconds", "nan"),
        ("--seconds", "61"),
        ("--rounds", "0"),
        ("--earlier-writes", "0"),
        ("--earlier-activations", "0"),
        ("--earlier-activations", "1000001"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", *words])
    with pytest.raises(SystemExit):
        Options.from_arguments("")
    assert words[0] in capsys.readouterr().err


@pytest.mark.parametrize("quick", [True, False])
def test_what_is_given_holds_and_the_rest_is_usual(
    monkeypatch: pytest.MonkeyPatch, *, quick: bool
) -> None:
    words = ["--quick"] if quick else []
    monkeypatch.setattr(sys, "argv", ["bench", *words, "--earlier-writes", "7"])
    options = Options.from_arguments("")
    assert options.earlier_writes == 7
    assert options.records == (5_000 if quick else 100_000)
