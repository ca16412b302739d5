"""What each class of errors becomes for its caller, over HTTP and over gRPC.

Source: wire reference of the interface, "Envelope" and "Workload API".
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from keyhouse.attestation import QuoteRefusedError
from keyhouse.base.errors import (
    BadRequestError,
    BrokenError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KeyhouseError,
    NotFoundError,
    RefusedError,
    TooLargeError,
    UnauthenticatedError,
    UnavailableError,
    UnsettledError,
    WrongPhaseError,
)
from keyhouse.server.net.grpc_status import Status


class Wording(NamedTuple):
    """What a class of errors becomes for its caller."""

    http: int
    word: str  # of JSend in version 2; in version 1 it is always "error"
    grpc: Status


ERRORS: Final[Mapping[type[KeyhouseError], Wording]] = {
    BadRequestError: Wording(400, "fail", Status.INVALID_ARGUMENT),
    TooLargeError: Wording(413, "fail", Status.RESOURCE_EXHAUSTED),
    UnauthenticatedError: Wording(401, "fail", Status.UNAUTHENTICATED),
    ForbiddenError: Wording(403, "error", Status.PERMISSION_DENIED),
    NotFoundError: Wording(404, "error", Status.NOT_FOUND),
    GoneError: Wording(410, "error", Status.UNIMPLEMENTED),
    WrongPhaseError: Wording(409, "error", Status.FAILED_PRECONDITION),
    ConflictError: Wording(409, "error", Status.FAILED_PRECONDITION),
    InvalidError: Wording(400, "error", Status.INVALID_ARGUMENT),
    QuoteRefusedError: Wording(400, "error", Status.PERMISSION_DENIED),
    RefusedError: Wording(400, "error", Status.FAILED_PRECONDITION),
    UnavailableError: Wording(503, "error", Status.UNAVAILABLE),
    UnsettledError: Wording(503, "error", Status.UNAVAILABLE),
    BrokenError: Wording(500, "error", Status.INTERNAL),
    KeyhouseError: Wording(500, "error", Status.INTERNAL),
}


def wording(problem: KeyhouseError) -> Wording:
    """Return what ``problem`` becomes: the row of its nearest class."""
    return next(ERRORS[base] for base in type(problem).__mro__ if base in ERRORS)
