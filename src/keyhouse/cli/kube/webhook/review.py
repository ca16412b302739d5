"""Answer the admission reviews of the API server.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/,
"Webhook request and response", version v1.
"""

from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

import msgspec

from keyhouse.base.errors import KeyhouseError
from keyhouse.cli.kube.webhook.evaluation import ExpressionError
from keyhouse.cli.kube.webhook.merging import Object, difference
from keyhouse.cli.kube.webhook.policies import AdmissionRequest, Policies

_VERSION: Final = "admission.k8s.io/v1"
_INVALID: Final = 422
_FAILED: Final = 500

MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate"


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a request to the webhook."""

    api_version: str
    request: AdmissionRequest


class ReviewUnreadableError(Exception):
    """The body is not an admission review."""


class Reviewer:
    """Applies the policies to reviews.

    ``marbles`` returns the ConfigMap with the marbles, or None if the ConfigMap does not exist.
    """

    def __init__(self, policies: Policies, marbles: Callable[[], Object | None]) -> None:
        self._policies = policies
        self._marbles = marbles

    def answer(self, path: str, body: bytes) -> bytes:
        """Return the answer (JSON) to the admission review in ``body``.

        ``path`` is ``MUTATE`` or ``VALIDATE``, and selects the policy. If the evaluation of the
        policy fails, the answer refuses the object. Raises ``ReviewUnreadableError``.
        """
        try:
            review = msgspec.json.decode(body, type=_Review)
        except (msgspec.DecodeError, RecursionError):
            raise ReviewUnreadableError(
                "the body of the request is not an AdmissionReview in JSON"
            ) from None
        if review.api_version != _VERSION:
            raise ReviewUnreadableError(
                f"the AdmissionReview has another version, expected {_VERSION}; set the field"
                " admissionReviewVersions of the webhook configuration to v1"
            )
        response = {"uid": review.request.uid, **self._response(path, review.request)}
        whole = {"apiVersion": _VERSION, "kind": "AdmissionReview", "response": response}
        return msgspec.json.encode(whole)

    def _response(self, path: str, request: AdmissionRequest) -> dict[str, Any]:
        try:
            return self._mutation(request) if path == MUTATE else self._validation(request)
        except (ExpressionError, KeyhouseError, LookupError, TypeError, RecursionError) as error:
            known = isinstance(error, ExpressionError | KeyhouseError)
            reason = str(error) if known else type(error).__name__
            return _refused(
                _FAILED,
                "the webhook of Keyhouse cannot evaluate its policy, so the object is refused:"
                f" {reason}; check the object, or ask the administrator of the cluster",
            )

    def _mutation(self, request: AdmissionRequest) -> dict[str, Any]:
        after = self._policies.mutating.changed(request)
        patch = difference(request.object or {}, after)
        if not patch:
            return {"allowed": True}
        encoded = b64encode(msgspec.json.encode(patch)).decode("ascii")
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}

    def _validation(self, request: AdmissionRequest) -> dict[str, Any]:
        marbles = self._marbles()
        if marbles is None:
            return _refused(
                _FAILED, "the ConfigMap with the marbles is missing: run keyhouse kube upgrade"
            )
        text = self._policies.validating.refusal(request, marbles)
        return _refused(_INVALID, text) if text else {"allowed": True}


def _refused(code: int, message: str) -> dict[str, Any]:
    reason = {_INVALID: "Invalid", _FAILED: "InternalError"}[code]
    return {"allowed": False, "status": {"code": code, "reason": reason, "message": message}}
