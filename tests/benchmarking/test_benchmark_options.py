"""What the benchmarks are asked for: nought is never taken for "not given"."""

import sys
from collections.abc import Callable

import pytest
from benchmarks.options import Options
from benchmarks.public_log import run as public_log
from benchmarks.store import run as store


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


@pytest.mark.parametrize(
    ("main", "words", "said"),
    [
        (store.main, ("--store", "--seconds", "nan"), "--seconds goes up to 60"),
        (store.main, ("--store", "--rounds", "0"), "--rounds from 1 to 20"),
        (store.main, ("--store", "--store-password-file", "x"), "goes with the URL"),
        (store.main, ("--store",), "--load"),
        (public_log.main, ("--log", "--seconds", "61"), "--seconds goes up to 60"),
        (public_log.main, ("--log", "--leaves", "27"), "--leaves and --evidence go from"),
        (public_log.main, ("--log", "--evidence", "28", "1000001"), "--leaves and --evidence go"),
    ],
)
def test_a_part_alone_refuses_what_it_cannot_measure(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    main: Callable[[], None],
    words: tuple[str, ...],
    said: str,
) -> None:
    load = () if said == "--load" else ("--load", "program")
    monkeypatch.setattr(sys, "argv", ["bench", *words, *load])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
