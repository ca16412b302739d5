"""Answers of one of several replicas, from a state that is confirmed to be current (read index).

With a shared store, another replica may have changed the state. So each answer below 500 comes from
a state that was current after the request arrived.

A read waits for the read gate before the check of the head. A refusal by the present view also
waits, because the newest view may permit the request. A request with a body waits after the
complete body, so decision and answer use a state newer than the request. A request that appends
a record does not wait. The store appends a record only after the newest state, so a success
confirms itself. A refusal of such a request is decided again after the gate. Answers from 500 on
contain no place. A client that sends ``Keyhouse-At-Least`` receives an answer only from a state
that continues this place.
"""

from functools import partial
from typing import Final

import msgspec

from keyhouse.base.errors import BadRequestError, KeyhouseError
from keyhouse.coordinator import Engine, ReadGate
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.dispatcher import Dispatcher
from keyhouse.server.http.exchange import (
    BAD_REQUEST,
    INTERNAL_ERROR,
    Admission,
    Answer,
    Deferred,
    Head,
    PlacedHead,
    ProtocolRefusal,
)
from keyhouse.wire.headers import place_in

_STATE: Final = b"keyhouse-state"

Verdict = Answer | Admission


class Confirmed:
    """Answers requests with ``dispatcher``, after ``gate`` has confirmed that the view is current.

    If several replicas share the store, this class is the application of the HTTP server.
    """

    def __init__(
        self, dispatcher: Dispatcher, engine: Engine, answers: Answers, gate: ReadGate
    ) -> None:
        self._dispatcher: Final = dispatcher
        self._engine: Final = engine
        self._answers: Final = answers
        self._gate: Final = gate

    def admit(self, head: Head) -> Verdict | Deferred[Verdict]:
        """Check a request by the head, now or after the view is confirmed."""
        # Without a position, no other replica can have written.
        if self._engine.view.position is None:
            return self._judged(head)
        if head.method == "GET":
            return self._judged_later(head)
        verdict = self._dispatcher.admit(_plain(head))
        if isinstance(verdict, Answer):
            return self._judged_later(head)

        if verdict.appends:
            return msgspec.structs.replace(verdict, run=partial(self._append, head, verdict))
        return msgspec.structs.replace(verdict, run=partial(self._run_confirmed, head))

    def refuse(self, refusal: ProtocolRefusal) -> Answer | Deferred[Answer]:
        """Return the answer to a request that the HTTP server refuses.

        For a status below 500, first confirm the view.
        """
        failed = refusal.status >= INTERNAL_ERROR
        if failed or self._engine.view.position is None:
            return _without_place(self._dispatcher.refuse(refusal))

        def answer(problem: KeyhouseError | None) -> Answer:
            if problem is None:
                return self._dispatcher.refuse(refusal)
            nowhere = Head("", refusal.path, b"", None)
            return _without_place(self._answers.refused(problem, nowhere))

        deferred: Deferred[Answer] = Deferred()
        self._gate.call(lambda problem: deferred.resolve(answer, problem))
        return deferred

    async def _run_confirmed(self, head: Head, body: bytes) -> Answer:
        """Confirm the view, check the request again, and run it with ``body``."""
        verdict = await self._gate.confirmed(partial(self._judged, head))
        if isinstance(verdict, Answer):
            return verdict
        return await _run(verdict, body)

    async def _append(self, head: Head, admission: Admission, body: bytes) -> Answer:
        """Run a request that appends a record, usually without an earlier read of the store.

        The append itself checks phase and permission in the newest state, so the request needs no
        second admission. After a refusal (4xx), confirm the view by a read, and decide again.

        Read the store first in two cases: the engine is not settled, or the view does not continue
        the client's place. If this read fails, the request has certainly changed nothing.
        """
        if self._engine.is_settled and self._continues(head):
            answer = await _run(admission, body)
            if not BAD_REQUEST <= answer.status < INTERNAL_ERROR:
                return answer
        return await self._run_confirmed(head, body)

    def _judged_later(self, head: Head) -> Deferred[Verdict]:
        deferred: Deferred[Verdict] = Deferred()
        self._gate.call(lambda problem: deferred.resolve(self._judged, head, problem))
        return deferred

    def _judged(self, head: Head, problem: KeyhouseError | None = None) -> Verdict:
        """Admit or answer a request by the present view.

        ``problem`` is the error of the read gate. None: the gate has confirmed the view.
        """
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
        return msgspec.structs.replace(verdict, run=partial(_run, verdict))

    def _continues(self, head: Head) -> bool:
        """Return whether the view continues the client's place (``Keyhouse-At-Least``).

        The result is also true for a ``head`` without a place.
        """
        try:
            if isinstance(head, PlacedHead):
                self._require_place(head.at_least)
        except KeyhouseError:
            return False
        return True

    def _require_place(self, text: bytes) -> None:
        """Require that the view continues ``text``, the client's place in the journal.

        Raises ``BadRequestError``, and the errors of ``ReadGate.require``.
        """
        wanted = place_in(text.decode("latin-1"))
        if wanted is None:
            raise BadRequestError(
                "the header Keyhouse-At-Least must be a place in the journal",
                fields={"headers": "Keyhouse-At-Least is not a place"},
                hint="send the value of Keyhouse-State from an earlier answer",
            )
        self._gate.require(wanted)


def _plain(head: Head) -> Head:
    return head.plain if isinstance(head, PlacedHead) else head


async def _run(admission: Admission, body: bytes) -> Answer:
    """Run ``admission`` with ``body``. An answer from 500 on has no ``Keyhouse-State``."""
    outcome = admission.run(body)
    return _without_place(outcome if isinstance(outcome, Answer) else await outcome)


def _without_place(answer: Answer) -> Answer:
    """Return ``answer``, from 500 on without ``Keyhouse-State``: its view is not confirmed."""
    if answer.status < INTERNAL_ERROR:
        return answer
    headers = tuple(header for header in answer.headers if header[0] != _STATE)
    return Answer(answer.status, answer.body, headers)
