"""The text of a place in a document."""

from keyhouse.base.printable import at


def test_plain_words_and_indices_are_joined() -> None:
    assert at("Marbles", "web", "TLS", 0) == "Marbles.web.TLS[0]"
    assert at("Roles", "a-b_1") == "Roles.a-b_1"
    assert not at()


def test_other_keys_are_quoted_and_escaped() -> None:
    assert at("Secrets", "my key", "Size") == 'Secrets["my key"].Size'
    assert at("a", "") == 'a[""]'
    assert at("a", 'x"y') == 'a["x\\"y"]'
    assert at("a", "käse") == 'a["käse"]'
    assert at("a", "\u202e\n\x1b[0m\x9b") == 'a["\\u202e\\n\\u001b[0m\\u009b"]'


def test_only_the_beginning_of_a_long_key_is_shown() -> None:
    assert at("a", "x" * 1_000_000) == f'a["{"x" * 100}..."]'
