"""Who types commands is told of commands, not of routes."""

import json
import re
from pathlib import Path

import pytest

from keyhouse.cli.output.coordinator_words import in_commands

ANSWERS = Path(__file__).parent.parent.parent / "acceptance/client_api/golden"
_ROUTE = re.compile(r"\(.*(GET|POST) /api/")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "no update is pending (initiate one with POST /api/v2/update)",
            "no update is pending (initiate one with keyhouse manifest update apply)",
        ),
        (
            "set one with POST /api/v2/manifest",
            "set one with keyhouse manifest set",
        ),
        (
            "encrypt it to the key of GET /api/v2/recover/public-key; a restart makes another",
            "encrypt it to the key of keyhouse recover public-key; a restart makes another",
        ),
        ("name each secret: /api/v2/secrets?s=one&s=two", "keyhouse secret get NAME..."),
        (
            "send the digest that POST /api/v2/plan has answered",
            "--expect-plan with the digest that keyhouse manifest plan prints",
        ),
        ("DELETE /api/v2/status", "DELETE /api/v2/status"),
        ("it cannot be read", "it cannot be read"),
    ],
)
def test_routes_are_replaced_by_commands(said: str, shown: str) -> None:
    assert in_commands(said) == shown


def test_no_recorded_answer_names_a_route_that_has_no_command() -> None:
    found = [
        answer["message"]
        for file in sorted(ANSWERS.glob("*.json"))
        for answer in _answers(json.loads(file.read_text()))
    ]

    assert any("POST /api/v2/" in message for message in found)
    assert [message for message in found if _ROUTE.search(in_commands(message))] == []


def _answers(value: object) -> list[dict[str, str]]:
    """Return the objects with a message, wherever they are."""
    if isinstance(value, list):
        return [found for each in value for found in _answers(each)]
    if not isinstance(value, dict):
        return []
    own = [value] if isinstance(value.get("message"), str) else []
    return own + [found for each in value.values() for found in _answers(each)]
