"""Which answers are kept: those of the current view, in bounded room, the ones asked for again."""

import pytest
from support.samples.authority import coordinator_keys

from keyhouse.coordinator import View
from keyhouse.coordinator.core.state import AcceptingManifest
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.server.client_api.dispatcher import LARGEST, ViewAnswers
from keyhouse.server.http.exchange import Answer, Head

ROOM = 100_000
BODY = b"x" * 1000


@pytest.fixture(scope="module", name="state")
def _state() -> AcceptingManifest:
    return AcceptingManifest(coordinator_keys())


@pytest.fixture(name="view")
def _view(state: AcceptingManifest) -> View:
    return View(state, None, UpdateLog().view())


def head(number: int, identity: bytes | None = b"me") -> Head:
    return Head("GET", "/api/v2/secrets", b"s=%d" % number, identity)


def kept(answers: ViewAnswers, view: View, numbers: range) -> int:
    return sum(answers.get(view, head(number)) is not None for number in numbers)


def test_answer_is_kept_for_an_equal_request_of_the_same_caller_only(view: View) -> None:
    answers, answer = ViewAnswers(), Answer(200, b"mine")
    answers.store(view, head(1), answer)
    assert answers.get(view, head(1)) is answer
    assert answers.get(view, head(2)) is None
    assert answers.get(view, head(1, identity=b"you")) is None
    assert answers.get(view, head(1, identity=None)) is None


def test_nothing_counts_under_another_view(view: View, state: AcceptingManifest) -> None:
    answers = ViewAnswers(ROOM)
    for number in range(150):  # both generations hold something
        answers.store(view, head(number), Answer(200, BODY))
    later = View(state, None, UpdateLog().view())
    assert kept(answers, later, range(150)) == 0
    answers.store(later, head(0), Answer(200, b"new"))
    assert kept(answers, later, range(150)) == 1
    assert kept(answers, view, range(150)) == 0


def test_room_is_bounded_whatever_is_asked(view: View) -> None:
    answers = ViewAnswers(ROOM)
    for number in range(10_000):
        answers.store(view, head(number), Answer(200, BODY))
    held = kept(answers, view, range(10_000))
    assert ROOM / 2 < held * len(BODY) <= 2 * ROOM


def test_what_is_asked_for_again_outlives_what_is_not(view: View) -> None:
    answers = ViewAnswers(ROOM)
    answers.store(view, head(0), Answer(200, BODY))
    for number in range(1, 2000):
        answers.store(view, head(number), Answer(200, BODY))
        assert answers.get(view, head(0)) is not None
    assert answers.get(view, head(1)) is None


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (head(1), Answer(200, b"x" * (LARGEST + 1))),
        (head(1, identity=b"x" * LARGEST), Answer(200, b"")),
        (Head("GET", "/" + "x" * LARGEST, b"", None), Answer(200, b"")),
    ],
    ids=["body", "certificate", "path"],
)
def test_what_is_large_is_not_kept(view: View, asked: Head, answer: Answer) -> None:
    answers = ViewAnswers()
    answers.store(view, asked, answer)
    assert answers.get(view, asked) is None
