"""What each class of errors becomes for its caller, over HTTP and over gRPC.

Source: wire reference of the interface, "Envelope" and "Workload API".
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from keyhouse.attestation import QuoteRefused
from keyhouse.base.errors import (
    BadRequest,
    Broken,
    Conflicting,
    Forbidden,
    Gone,
    Invalid,
    KeyhouseError,
    NotFound,
    Refused,
    TooLarge,
    Unauthenticated,
    Unavailable,
    WrongPhase,
)
from keyhouse.server.net.grpc_status import Status

__all__ = ["ERRORS", "Wording", "wording"]


class Wording(NamedTuple):
    """What a class of errors becomes for its caller."""

    http: int
    word: str  # of JSend in version 2; in version 1 it is always "error"
    grpc: Status


ERRORS: Final[Mapping[type[KeyhouseError], Wording]] = {
    BadRequest: Wording(400, "fail", Status.INVALID_ARGUMENT),
    TooLarge: Wording(413, "fail", Status.RESOURCE_EXHAUSTED),
    Unauthenticated: Wording(401, "fail", Status.UNAUTHENTICATED),
    Forbidden: Wording(403, "error", Status.PERMISSION_DENIED),
    NotFound: Wording(404, "error", Status.NOT_FOUND),
    Gone: Wording(410, "error", Status.UNIMPLEMENTED),
    WrongPhase: Wording(409, "error", Status.FAILED_PRECONDITION),
    Conflicting: Wording(409, "error", Status.FAILED_PRECONDITION),
    Invalid: Wording(400, "error", Status.INVALID_ARGUMENT),
    QuoteRefused: Wording(400, "error", Status.PERMISSION_DENIED),
    Refused: Wording(400, "error", Status.FAILED_PRECONDITION),
    Unavailable: Wording(503, "error", Status.UNAVAILABLE),
    Broken: Wording(500, "error", Status.INTERNAL),
    KeyhouseError: Wording(500, "error", Status.INTERNAL),
}


def wording(problem: KeyhouseError) -> Wording:
    """Return what ``problem`` becomes: the row of its nearest class."""
    return next(ERRORS[base] for base in type(problem).__mro__ if base in ERRORS)
