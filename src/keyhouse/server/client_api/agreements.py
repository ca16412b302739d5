"""How far an update has come, as an answer: the same in both versions of the interface."""

from typing import Final

from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.bodies import still_needed
from keyhouse.server.http.exchange import Answer
from keyhouse.server.services.updates import Agreement
from keyhouse.wire.client_api import AcknowledgedData, UpdateAnswer
from keyhouse.wire.sent import LEFT_OUT

CANCELLED: Final = "the pending update is cancelled"

_NOT_WITNESSED: Final = "no quorum of the witnesses has cosigned this yet: a host can roll it back"


def updated(answers: Answers, agreement: Agreement) -> Answer:
    """Return the answer to an update that was initiated, or applied at once."""
    notes = "; ".join((*agreement.notes, *unwitnessed(agreement)))
    data = _data(UpdateAnswer, agreement, LEFT_OUT)
    return answers.success(data, agreement.view, notes)


def acknowledged(answers: Answers, agreement: Agreement) -> Answer:
    """Return the answer to an acknowledgement.

    Clients read the first word of its message: ``All``, or a number.
    """
    said = ["All necessary users have agreed: the update is applied", *agreement.notes]
    if agreement.missing:
        said = [still_needed(agreement.missing)]
    message = "; ".join((*said, *unwitnessed(agreement)))
    return answers.success(_data(AcknowledgedData, agreement, message), agreement.view)


def unwitnessed(agreement: Agreement) -> tuple[str, ...]:
    """Return what to say of a change that no quorum of the witnesses knows yet, if that is so."""
    return (_NOT_WITNESSED,) if agreement.witnessed is False else ()


def _data(kind: type[UpdateAnswer], agreement: Agreement, message: str) -> UpdateAnswer:
    return kind(
        message=message,
        signed=LEFT_OUT,
        missing_acknowledgments=agreement.missing,
        missing_users=agreement.missing_users,
        recovery_secrets=agreement.recovery_secrets or LEFT_OUT,
        witnessed=LEFT_OUT if agreement.witnessed is None else agreement.witnessed,
    )
