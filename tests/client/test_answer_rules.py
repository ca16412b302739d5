"""What a client takes for an answer: in time, of one connection, and a success where it says so."""

import time
from datetime import UTC, datetime

import httpx
import pytest

from keyhouse.client import (
    AnswerUnreadableError,
    CallRefusedError,
    ServiceUnavailableError,
    TrustError,
)
from keyhouse.client.answers import document
from keyhouse.client.effects import HttpAnswer, HttpRequest
from keyhouse.client.http.retries import Rules
from keyhouse.client.http.rules import Body
from keyhouse.client.trust import Trust, verification_steps
from keyhouse.wire.address import Address
from keyhouse_simulation import SimulatedPlatform, make_machine

WHERE = Address("localhost", 4433)


def test_a_body_that_comes_in_drops_ends_at_the_deadline() -> None:
    late = HttpRequest("GET", "/", deadline=time.monotonic() - 1)
    body = Body(WHERE, late, httpx.Response(200))
    with pytest.raises(httpx.ReadTimeout):
        body.add(b"{")


def test_a_body_in_time_is_taken() -> None:
    body = Body(WHERE, HttpRequest("GET", "/", deadline=time.monotonic() + 60), httpx.Response(200))
    body.add(b"{")
    body.add(b"}")
    assert body.answer().body == b"{}"


REFUSAL = b'{"status": "error", "message": "not here"}'


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_a_refusal_is_never_treated_as_a_document(status: int) -> None:
    with pytest.raises(CallRefusedError, match="not here"):
        document(HttpAnswer(status, REFUSAL))


def test_a_document_that_is_put_off_comes_later() -> None:
    with pytest.raises(ServiceUnavailableError):
        document(HttpAnswer(503, REFUSAL))


@pytest.mark.parametrize("status", [201, 302, 500])
def test_an_object_under_another_status_is_no_document(status: int) -> None:
    with pytest.raises(AnswerUnreadableError):
        document(HttpAnswer(status, b"{}"))


@pytest.mark.parametrize("handshakes", [0, 2])
def test_a_quote_over_another_number_of_handshakes_is_not_looked_at(handshakes: int) -> None:
    """With two, the certificate of the first could vouch for what the second one answered."""
    now = datetime.now(UTC)
    platform = SimulatedPlatform(make_machine(now))
    trust = Trust(expected=platform.expected_identity, collateral=platform.collateral)
    seen: list[bytes] = []
    steps = verification_steps(WHERE, trust, None, Rules(), seen, b"nonce", now)
    assert isinstance(next(steps), HttpRequest)
    seen.extend([b"a leaf"] * handshakes)
    with pytest.raises(TrustError, match="connection of its request"):
        steps.send(HttpAnswer(200, b"{}"))
