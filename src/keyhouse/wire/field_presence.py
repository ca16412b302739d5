"""Rules for sent fields, where readers accept more than the coordinator sends.

A type of an answer is written once, for the coordinator that encodes it and for the client that
decodes it. Its defaults are the client's: the values of missing fields, for example in answers of
another implementation of the interface. The coordinator sends every field, unless its type here
permits to leave it out or to send null. The description of the interface describes the sent form.
"""

from enum import Enum
from typing import Annotated, Any, Final, TypeVar

import msgspec

T = TypeVar("T")


class Sent(Enum):
    """The exception from the rule that the coordinator sends every field."""

    SOMETIMES = "left out where it does not apply"
    OR_NULL = "null where there is nothing"
    NEVER = "made by the reader"


Sometimes = Annotated[T, Sent.SOMETIMES]
OrNull = Annotated[T, Sent.OR_NULL]
Unsent = Annotated[T, Sent.NEVER]


class OneOf(msgspec.Struct, frozen=True):
    """All sent values. A reader also accepts other values."""

    values: tuple[int | str, ...]


LEFT_OUT: Final[Any] = msgspec.UNSET
"""The value of a ``Sometimes`` or ``Unsent`` field that is left out."""

NULL: Final[Any] = None
"""The value of an ``OrNull`` field that is sent as null."""


def encoded(json: bytes) -> Any:
    """Return ``json``, a value encoded before, in a form that is sent unchanged."""
    return msgspec.Raw(json)
