"""Maps each class of errors to its answer over HTTP and over gRPC.

Source: ``docs/reference/routes.md``, "Answers"; ``docs/reference/workload-api.md``, "Calls".
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from keyhouse.attestation import QuoteRefusedError
from keyhouse.base import errors
from keyhouse.base.errors import KeyhouseError
from keyhouse.server.net.grpc_status import GrpcStatus


class OutdatedConnectionError(errors.UnavailableError):
    """The certificate in the client's handshake is no longer in use: the client must connect again.

    The connection ends with the answer.
    """

    code = "outdated-connection"


class Wording(msgspec.Struct, frozen=True):
    """The HTTP status, JSend word and gRPC status for a class of errors."""

    http: int
    # The word of JSend in version 2. Version 1 always has "error".
    word: str
    grpc: GrpcStatus


ERRORS: Final[Mapping[type[KeyhouseError], Wording]] = {
    errors.BadRequestError: Wording(400, "fail", GrpcStatus.INVALID_ARGUMENT),
    errors.TooLargeError: Wording(413, "fail", GrpcStatus.RESOURCE_EXHAUSTED),
    errors.UnauthenticatedError: Wording(401, "fail", GrpcStatus.UNAUTHENTICATED),
    errors.ForbiddenError: Wording(403, "error", GrpcStatus.PERMISSION_DENIED),
    errors.NotFoundError: Wording(404, "error", GrpcStatus.NOT_FOUND),
    errors.GoneError: Wording(410, "error", GrpcStatus.UNIMPLEMENTED),
    errors.WrongPhaseError: Wording(409, "error", GrpcStatus.FAILED_PRECONDITION),
    errors.ConflictError: Wording(409, "error", GrpcStatus.FAILED_PRECONDITION),
    errors.InvalidError: Wording(400, "error", GrpcStatus.INVALID_ARGUMENT),
    QuoteRefusedError: Wording(400, "error", GrpcStatus.PERMISSION_DENIED),
    errors.RefusedError: Wording(400, "error", GrpcStatus.FAILED_PRECONDITION),
    errors.UnavailableError: Wording(503, "error", GrpcStatus.UNAVAILABLE),
    errors.UnsettledError: Wording(503, "error", GrpcStatus.UNAVAILABLE),
    errors.StartAgainError: Wording(500, "error", GrpcStatus.INTERNAL),
    errors.BrokenError: Wording(500, "error", GrpcStatus.INTERNAL),
    KeyhouseError: Wording(500, "error", GrpcStatus.INTERNAL),
}


def wording(problem: KeyhouseError) -> Wording:
    """Return the statuses for ``problem``: the row of its nearest class in ``ERRORS``."""
    return next(ERRORS[base] for base in type(problem).__mro__ if base in ERRORS)
