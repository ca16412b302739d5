"""How far an update has come, as an answer: the same in both versions of the interface."""

from typing import Final

from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.bodies import still_needed
from keyhouse.server.http.exchange import Answer
from keyhouse.server.services.updates import Agreement
from keyhouse.wire.client_api import AcknowledgedData, UpdateAnswer
from keyhouse.wire.sent import LEFT_OUT

CANCELLED: Final = "the pending update is cancelled"


def updated(answers: Answers, agreement: Agreement) -> Answer:
    """Return the answer to an update that was initiated, or applied at once."""
    notes = "; ".join(agreement.notes)
    data = _data(UpdateAnswer, agreement, LEFT_OUT)
    return answers.success(data, agreement.view, notes)


def acknowledged(answers: Answers, agreement: Agreement) -> Answer:
    """Return the answer to an acknowledgement.

    Clients read the first word of its message: ``All``, or a number.
    """
    if agreement.missing:
        message = still_needed(agreement.missing)
    else:
        applied = "All necessary users have agreed: the update is applied"
        message = "; ".join((applied, *agreement.notes))
    return answers.success(_data(AcknowledgedData, agreement, message), agreement.view)


def _data(kind: type[UpdateAnswer], agreement: Agreement, message: str) -> UpdateAnswer:
    return kind(
        message=message,
        signed=LEFT_OUT,
        missing_acknowledgments=agreement.missing,
        missing_users=agreement.missing_users,
        recovery_secrets=agreement.recovery_secrets or LEFT_OUT,
    )
