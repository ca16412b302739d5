"""Answers of one of several replicas: each below 500 is made from the newest state that there is.

A read waits for the gate before it is judged. So does what the present view would refuse, for the
newest may not. What has a body waits when the body is complete: what is done then, and what is told
then, is of a state that is newer than the request. Answers from 500 on tell no place, and who sends
``Keyhouse-At-Least`` is answered only from a state that continues that place.
"""

from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from keyhouse.base.errors import BadRequestError, KeyhouseError
from keyhouse.coordinator import Engine, ReadGate
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.dispatcher import Dispatcher
from keyhouse.server.http.exchange import Admission, Answer, Deferred, Head, PlacedHead, Refusal
from keyhouse.wire.headers import place_in

_STATE: Final = b"keyhouse-state"

Verdict = Answer | Admission


class Confirmed:
    """Implements ``Application`` over ``dispatcher``, whose views ``gate`` confirms."""

    def __init__(
        self, dispatcher: Dispatcher, engine: Engine, answers: Answers, gate: ReadGate
    ) -> None:
        self._dispatcher: Final = dispatcher
        self._engine: Final = engine
        self._answers: Final = answers
        self._gate: Final = gate

    def admit(self, head: Head) -> Verdict | Deferred[Verdict]:
        """Judge a request by its head, now or when the view is confirmed."""
        if self._engine.view.position is None:  # there is nothing that others could have written
            return self._judged(head)
        if head.method == "GET":
            return self._judged_later(head)
        verdict = self._dispatcher.admit(_plain(head))
        if isinstance(verdict, Answer):
            return self._judged_later(head)

        async def run(body: bytes) -> Answer:
            confirmed = await self._gate.confirmed(partial(self._judged, head))
            if isinstance(confirmed, Answer):
                return confirmed
            outcome = confirmed.run(body)
            return outcome if isinstance(outcome, Answer) else await outcome

        return msgspec.structs.replace(verdict, run=run)

    def refuse(self, refusal: Refusal) -> Answer | Deferred[Answer]:
        """Word what the protocol refuses."""
        failed = refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        if failed or self._engine.view.position is None:
            return _without_place(self._dispatcher.refuse(refusal))

        def answer(problem: KeyhouseError | None) -> Answer:
            if problem is None:
                return self._dispatcher.refuse(refusal)
            nowhere = Head("", refusal.path, b"", None)
            return _without_place(self._answers.refused(problem, nowhere))

        deferred: Deferred[Answer] = Deferred()
        self._gate.call(lambda problem: deferred.tell(answer, problem))
        return deferred

    def _judged_later(self, head: Head) -> Deferred[Verdict]:
        deferred: Deferred[Verdict] = Deferred()
        self._gate.call(lambda problem: deferred.tell(self._judged, head, problem))
        return deferred

    def _judged(self, head: Head, problem: KeyhouseError | None = None) -> Verdict:
        """Judge a request by the present view, which is confirmed if there is no ``problem``."""
        plain = _plain(head)
        try:
            if problem is not None:
                raise problem
            if isinstance(head, PlacedHead):
                self._require_place(head.at_least)
            verdict = self._dispatcher.admit(plain)
        except KeyhouseError as error:
            verdict = self._answers.refused(error, plain)
        if isinstance(verdict, Answer):
            return _without_place(verdict)
        admission = verdict

        async def run(body: bytes) -> Answer:
            outcome = admission.run(body)
            return _without_place(outcome if isinstance(outcome, Answer) else await outcome)

        return msgspec.structs.replace(admission, run=run)

    def _require_place(self, text: bytes) -> None:
        """Require that the view continues the place ``text``, which the client has seen.

        Raises ``BadRequestError``, and as ``ReadGate.require``.
        """
        wanted = place_in(text.decode("latin-1"))
        if wanted is None:
            raise BadRequestError(
                "Keyhouse-At-Least cannot be read",
                fields={"headers": "Keyhouse-At-Least is not a place"},
                hint="send the value of Keyhouse-State from an earlier answer",
            )
        self._gate.require(wanted)


def _plain(head: Head) -> Head:
    return head.plain if isinstance(head, PlacedHead) else head


def _without_place(answer: Answer) -> Answer:
    """Return ``answer``; one from 500 on without ``Keyhouse-State``: its view is not confirmed."""
    if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return answer
    headers = tuple(header for header in answer.headers if header[0] != _STATE)
    return Answer(answer.status, answer.body, headers)
