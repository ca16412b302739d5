"""What a coordinator says to people names commands; who types those is told of no body."""

import json
import re
from pathlib import Path

import pytest

from keyhouse.cli.output.show import in_commands

ANSWERS = Path(__file__).parent.parent.parent / "acceptance/client_api/golden"
_ROUTE = re.compile(r"\(.*/api/")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('send {"manifest": its JSON text in base64}', "pass a manifest file"),
        ("name each secret: /api/v2/secrets?s=one&s=two", "keyhouse secret get NAME..."),
        ("it cannot be read", "it cannot be read"),
    ],
)
def test_what_is_sent_is_replaced_by_what_is_passed(said: str, shown: str) -> None:
    assert in_commands(said) == shown


def test_no_hint_of_a_recorded_answer_names_a_route_where_a_command_does_it() -> None:
    found = [
        answer["message"]
        for file in sorted(ANSWERS.glob("*.json"))
        for answer in _answers(json.loads(file.read_text()))
    ]

    assert any("keyhouse manifest set" in message for message in found)
    # Version 1 is for other programs: no command speaks it.
    named = [message for message in found if _ROUTE.search(in_commands(message))]
    assert named == ["version 1 has no recovery (use POST /api/v2/recover)"]


def _answers(value: object) -> list[dict[str, str]]:
    """Return the objects with a message, wherever they are."""
    if isinstance(value, list):
        return [found for each in value for found in _answers(each)]
    if not isinstance(value, dict):
        return []
    own = [value] if isinstance(value.get("message"), str) else []
    return own + [found for each in value.values() for found in _answers(each)]
