"""How the coordinator sends a field, where readers accept more than that.

A type of an answer is written once, for the coordinator that encodes it and for the client that
decodes it. Its defaults are the client's: the values of fields that are missing, as in answers of
another implementation of the interface. The coordinator sends every field, unless its type says
here that it is left out or null. The description of the interface says what the coordinator sends.
"""

from enum import Enum
from typing import Annotated, Any, Final, TypeVar

import msgspec

T = TypeVar("T")


class Sent(Enum):
    """How a field differs from others in what is sent."""

    SOMETIMES = "left out where it does not apply"
    OR_NULL = "null where there is nothing"
    NEVER = "made by the reader"


Sometimes = Annotated[T, Sent.SOMETIMES]
OrNull = Annotated[T, Sent.OR_NULL]
Unsent = Annotated[T, Sent.NEVER]


class OneOf(msgspec.Struct, frozen=True):
    """All values that are sent. A reader takes others, too."""

    values: tuple[int | str, ...]


LEFT_OUT: Final[Any] = msgspec.UNSET
"""The value of a ``Sometimes`` or ``Unsent`` field that is not to be sent."""

NULL: Final[Any] = None
"""The value of an ``OrNull`` field that is to be sent as null."""


def encoded(json: bytes) -> Any:
    """Return what is sent as ``json``: a value that was encoded before."""
    return msgspec.Raw(json)
