"""The errors of requests to the API server of Kubernetes."""

from collections.abc import Mapping
from typing import Any, Final

from keyhouse.base.errors import RefusedError, UnavailableError

FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
_HINTS: Final[Mapping[int, str]] = {
    401: "renew the credentials in the kubeconfig: the API server does not know this user",
    FORBIDDEN: "ask the administrator of the cluster for the permission",
    CONFLICT: "pass --force-conflicts to take these fields over from their manager",
}


class KubeconfigError(RefusedError):
    """The kubeconfig has no usable cluster or user."""

    code = "kubeconfig"
    next_step = "correct the kubeconfig, or select another context with --context"


class ClusterRefusedError(RefusedError):
    """The API server refused a request. ``status`` is the HTTP status."""

    code = "cluster-refused"
    next_step = "correct the values of the chart, or ask the administrator of the cluster"

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint or _HINTS.get(status, ""))
        self.status = status


class ClusterUnreachableError(UnavailableError):
    """The API server did not answer."""

    code = "cluster-unreachable"


def refusal_of(status: int, subject: str, answer: Any) -> ClusterRefusedError:
    """Return the error for the ``answer`` to a request about ``subject``.

    ``status`` is the HTTP status. ``answer`` is the decoded JSON of the answer, usually a
    ``Status`` object of Kubernetes with a message. None means an answer without JSON.
    """
    message = answer.get("message", "") if isinstance(answer, dict) else ""
    return ClusterRefusedError(
        status, f"the API server refuses {subject} ({status}): {message or 'without a reason'}"
    )
