"""How far an update has come, as an answer: the same in both versions of the interface."""

from keyhouse.server.client_api.changes import Agreement
from keyhouse.server.client_api.service import Service
from keyhouse.server.http.exchange import Answer
from keyhouse.wire.client_api import AcknowledgedData, UpdateAnswer
from keyhouse.wire.sent import LEFT_OUT

__all__ = ["acknowledged", "updated"]


def updated(service: Service, agreement: Agreement) -> Answer:
    """Return the answer to an update that was initiated, or applied at once."""
    notes = "; ".join(agreement.notes)
    data = _data(UpdateAnswer, agreement, LEFT_OUT)
    return service.success(data, agreement.view, notes)


def acknowledged(service: Service, agreement: Agreement) -> Answer:
    """Return the answer to an acknowledgement; clients read the first word of its message."""
    data = _data(AcknowledgedData, agreement, agreement.message)
    return service.success(data, agreement.view)


def _data(kind: type[UpdateAnswer], agreement: Agreement, message: str) -> UpdateAnswer:
    return kind(
        message=message,
        missing_acknowledgments=agreement.missing,
        missing_users=agreement.missing_users,
        recovery_secrets=agreement.recovery_secrets or LEFT_OUT,
    )
