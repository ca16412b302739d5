"""What an answer without success tells a client to do."""

import pytest

from keyhouse.base.errors import BrokenError, KeyhouseError, UnavailableError, UnsettledError
from keyhouse.server.client_api.answers import refusal


@pytest.mark.parametrize(
    ("problem", "status", "headers"),
    [
        (UnavailableError("later"), 503, {b"retry-after": b"1"}),
        (UnsettledError("it may have happened"), 503, {b"keyhouse-outcome": b"unknown"}),
        (BrokenError("no"), 500, {}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, KeyhouseError) else "",
)
@pytest.mark.parametrize("fails", [False, True], ids=["v1", "v2"])
def test_only_what_has_not_happened_is_to_be_tried_again(
    problem: KeyhouseError,
    status: int,
    headers: dict[bytes, bytes],
    fails: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    answer = refusal(problem, ((b"x", b"y"),), fails=fails)
    assert (answer.status, dict(answer.headers)) == (status, {b"x": b"y", **headers})
