"""What is told of an error that nobody expected."""

import json

import pytest

from keyhouse.base.errors import InvalidError, Problem, RefusedError
from keyhouse.base.printable import printable
from keyhouse.base.process.crash_report import UnexpectedError, place_of
from keyhouse.base.process.error_text import error_text
from keyhouse.cli.output.show import show_rows
from keyhouse.server.process.settings import _address


def test_kind_and_place_are_told_and_never_the_text() -> None:
    with pytest.raises(ValueError, match="canary") as raised:
        int("canary")
    told = error_text(UnexpectedError.of(raised.value))

    assert told.startswith("error: Keyhouse failed: ValueError at an unknown place, id ")
    assert "canary" not in told


def test_a_module_that_cannot_be_loaded_is_named_with_what_to_do() -> None:
    refused = ImportError("canary: cannot open shared object file", name="_ssl", path="canary")
    told = error_text(UnexpectedError.of(refused))

    assert told.startswith("error: Keyhouse failed: the module _ssl cannot be loaded at ")
    assert "install it again" in told
    assert "defect" not in told
    assert "canary" not in told


def test_the_place_is_our_own_last_one() -> None:
    with pytest.raises(AttributeError) as raised:
        _address(1, "")  # type: ignore[arg-type]

    module, _, line = place_of(raised.value).partition(":")
    assert module == "keyhouse.server.process.settings"
    assert int(line) > 0


@pytest.mark.parametrize(
    "text", ["\x1b[31m", "a\nerror: b", "\r", "\x00", "\u202e", "\udc80", "\x9b"]
)
def test_nothing_shown_forges_a_line_or_drives_a_terminal(text: str) -> None:
    assert printable(f"a{text}b").isprintable()
    refused = RefusedError(f"x{text}", hint=f"y{text}")
    invalid = InvalidError(f"z{text}", [Problem(f"at{text}", f"p{text}", f"h{text}")])
    for error, count in ((refused, 2), (invalid, 3)):
        lines = error_text(error).splitlines()
        assert len(lines) == count
        assert all(line.isprintable() for line in lines)


def test_problems_say_of_what_they_are() -> None:
    invalid = InvalidError("the manifest b.json", [Problem("Marbles", "is empty")])

    assert error_text(invalid) == "error: the manifest b.json: 1 problem\n  Marbles: is empty\n"


def test_plain_text_stays_as_it_is() -> None:
    text = "Schlüssel, 鍵: ok"

    assert printable(text) == text
    assert json.loads(json.dumps(printable(text))) == text


def test_names_of_rows_are_escaped_as_their_values_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_rows({"package a\x1b[31m": "b\x1b]0;title\x07", "at": "now"})

    out = capsys.readouterr().out
    assert out == "package a\\x1b[31m  b\\x1b]0;title\\x07\nat                 now\n"
