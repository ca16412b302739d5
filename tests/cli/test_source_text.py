"""How a problem is shown where it stands."""

from keyhouse.base.errors import Problem
from keyhouse.cli.output.source_text import SourceText, as_objects
from keyhouse.manifest.source.json_source import json_places


def shown(text: str, at: str, *, colour: bool = False) -> list[str]:
    """Return the lines that are shown for a problem at ``at`` of a JSON text."""
    content = text.encode()
    source = SourceText("m.json", content, json_places(content))
    return source.show("error", [Problem(at, "is wrong", "fix it")], colour=colour).splitlines()


def test_place_line_caret_and_hint() -> None:
    assert shown('{\n\t"Täg": {"b": 1}}', '["Täg"].b') == [
        'm.json:2:15: error: ["Täg"].b: is wrong',
        '     2 |  "Täg": {"b": 1}}',
        "       |               ^",
        "  hint: fix it",
    ]


def test_of_a_long_line_the_part_around_is_shown() -> None:
    text = '{"pad": "%s", "key": 1, "rest": "%s"}' % ("x" * 5000, "y" * 5000)  # noqa: UP031 braces

    _, line, caret, _ = shown(text, "key")

    assert len(line) < 120
    start = caret.index("^")
    assert line[start:].startswith('1, "rest"')
    assert caret[start:] == "^"


def test_what_is_on_the_line_cannot_drive_a_terminal() -> None:
    assert all("\x1b" not in each for each in shown('{"a": "\x7f\u202e\x1b[31m"', "a"))
    assert all("\u202e" not in each for each in shown('{"a": "\u202e"}', "a"))


def test_a_line_with_a_secret_is_left_out() -> None:
    lines = shown('{"Secrets": {"s": {"private": "c2VjcmV0", "Typ": 1}}}', "Secrets.s.Typ")

    assert lines == ["m.json:1:50: error: Secrets.s.Typ: is wrong", "  hint: fix it"]


def test_colour_is_around_the_words_and_the_caret_alone() -> None:
    plain, coloured = shown('{"a": 1}', "a"), shown('{"a": 1}', "a", colour=True)

    assert coloured[0] == "\x1b[1mm.json:1:7\x1b[0m: \x1b[31m\x1b[1merror\x1b[0m: a: is wrong"
    assert coloured[1] == plain[1]
    assert coloured[2] == "       |       \x1b[31m\x1b[1m^\x1b[0m"


def test_a_problem_without_a_place_names_the_file() -> None:
    assert shown("{}", "Packages")[0] == "m.json: error: Packages: is wrong"
    (told,) = as_objects([Problem("Packages", "is wrong")], json_places(b"{}"))
    assert (told["line"], told["column"]) == (None, None)


def test_the_value_of_a_secret_on_a_line_of_its_own_is_left_out() -> None:
    text = '{"Secrets": {"s": {\n"Private":\n"Q0FOQVJZ",,\n"Type": "plain"}}}'

    assert shown(text, "")[0].startswith("m.json:3:12: error")
    assert not any("Q0FOQVJZ" in line for line in shown(text, ""))
    assert any(
        '"Type"' in line for line in shown(text.replace(",,", ",").replace("}}}", ",}}}"), "")
    )
