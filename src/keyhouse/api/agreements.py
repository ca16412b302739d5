"""How far an update has come, as an answer: the same in both versions of the interface."""

import msgspec

from keyhouse.api.changes import Agreement
from keyhouse.api.exchange import Answer
from keyhouse.api.service import Service

__all__ = ["acknowledged", "updated"]


def updated(service: Service, agreement: Agreement) -> Answer:
    """Return the answer to an update that was initiated, or applied at once."""
    notes = "; ".join(agreement.notes)
    return service.success(msgspec.json.encode(_data(agreement)), agreement.view, notes)


def acknowledged(service: Service, agreement: Agreement) -> Answer:
    """Return the answer to an acknowledgement; clients read the first word of its message."""
    data = {"message": agreement.message, **_data(agreement)}
    return service.success(msgspec.json.encode(data), agreement.view)


def _data(agreement: Agreement) -> dict[str, object]:
    data: dict[str, object] = {
        "missingAcknowledgments": agreement.missing,
        "missingUsers": agreement.missing_users,
    }
    if agreement.recovery_secrets:
        data["recoverySecrets"] = agreement.recovery_secrets
    return data
