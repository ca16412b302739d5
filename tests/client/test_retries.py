"""What is tried again, and what never is: each row of the table, and the steps that follow it."""

from itertools import product

import pytest

from keyhouse.base.secret import Secret
from keyhouse.client import (
    NO_RETRIES,
    AnswerUnreadableError,
    ClientSetupError,
    Retries,
    Timeouts,
    TrustError,
    UnreachableError,
)
from keyhouse.client.effects import HttpAnswer, HttpRequest, Pause
from keyhouse.client.http.retries import AGAIN, Failure, Rules, exchange, failure_of, pause_before

DONE = HttpAnswer(200, b"{}")
BUSY = HttpAnswer(503, b"{}")
GONE = UnreachableError("refused")
LOST = UnreachableError("dropped", connected=True)

Outcome = HttpAnswer | Exception


def walked(
    method: str, outcomes: list[Outcome], retries: Retries, total: float = 60
) -> tuple[Outcome, int, list[float]]:
    """Return how an exchange ends that meets ``outcomes``: its end, the attempts, the pauses."""
    rules = Rules(Timeouts.of(total), retries)
    steps = exchange(HttpRequest(method, "/x", body=Secret(b"x")), rules)
    coming, attempts, pauses = iter(outcomes), 0, list[float]()
    effect = next(steps)
    while True:
        try:
            if isinstance(effect, Pause):
                pauses.append(effect.seconds)
                effect = steps.send(None)
                continue
            attempts += 1
            outcome = next(coming)
            effect = steps.throw(outcome) if isinstance(outcome, Exception) else steps.send(outcome)
        except StopIteration as done:
            answer: HttpAnswer = done.value
            return answer, attempts, pauses
        except (UnreachableError, TrustError, AnswerUnreadableError) as error:
            return error, attempts, pauses


@pytest.mark.parametrize("what", Failure)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_each_row_of_the_table(method: str, what: Failure) -> None:
    outcomes: dict[Failure, HttpAnswer | UnreachableError] = {
        Failure.NOT_CONNECTED: GONE,
        Failure.NO_COMPLETE_ANSWER: LOST,
        Failure.DEFERRED: BUSY,
    }
    outcome = outcomes[what]
    assert failure_of(outcome) is what
    end, attempts, _ = walked(method, [outcome, DONE], Retries())
    again = (method, what) in AGAIN
    assert (end, attempts) == ((DONE, 2) if again else (outcome, 1))


def test_a_change_without_an_answer_is_the_one_thing_of_the_interface_not_repeated() -> None:
    every = set(product(("GET", "POST"), Failure))
    assert every - AGAIN == {("POST", Failure.NO_COMPLETE_ANSWER)}


@pytest.mark.parametrize(
    "final",
    [
        *(
            HttpAnswer(status, b"{}")
            for status in (200, 400, 401, 403, 404, 405, 409, 413, 500, 501)
        ),
        TrustError("another root"),
        AnswerUnreadableError("nonsense"),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_is_final_is_not_repeated(method: str, final: Outcome) -> None:
    assert walked(method, [final, DONE], Retries()) == (final, 1, [])


def test_there_are_as_many_further_attempts_as_pauses() -> None:
    assert walked("GET", [GONE] * 9, Retries((1, 2, 3))) == (GONE, 4, [1, 2, 3])
    assert walked("GET", [BUSY] * 9, NO_RETRIES) == (BUSY, 1, [])


def test_no_attempt_begins_after_the_deadline() -> None:
    assert walked("GET", [GONE] * 9, Retries((1, 50, 1)), total=20) == (GONE, 2, [1])


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("", 1), ("0", 1), ("3", 3), ("900", 5), ("-7", 1), ("1e9", 1), ("9" * 500, 1), ("²", 1)],
)
def test_the_coordinator_says_how_long_to_wait_within_bounds(header: str, seconds: float) -> None:
    answer = HttpAnswer(503, b"", retry_after=header)
    assert pause_before(1, "GET", answer, Retries((1,), longest=5), left=60) == seconds


def test_a_number_of_seconds_bounds_every_wait() -> None:
    assert Timeouts.of(5) == Timeouts(connect=5, read=5, total=5)
    assert Timeouts.of(600) == Timeouts(total=600)


@pytest.mark.parametrize("timeout", [0.0, -1.0, -1e-9, float("nan"), float("-inf")])
def test_what_is_no_time_to_wait_is_no_timeout(timeout: float) -> None:
    with pytest.raises(ClientSetupError):
        Timeouts.of(timeout)
    with pytest.raises(ClientSetupError):
        Timeouts(read=timeout)
