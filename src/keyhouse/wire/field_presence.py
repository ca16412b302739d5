"""Marks for fields of answers: may the coordinator leave out the field, or send null?

The coordinator and the client share the type of an answer. The defaults of its fields are for the
client, as values of missing fields. For example, an implementation besides Keyhouse may not send
all fields. The coordinator sends every field, unless a mark of this module permits to leave out the
field or to send null. OpenAPI, the description of the interface, shows the sent form.
"""

from enum import Enum
from typing import Annotated, Any, Final, TypeVar

import msgspec

T = TypeVar("T")


class Sent(Enum):
    """The exceptions from the rule that the coordinator sends every field of an answer."""

    SOMETIMES = "left out where it does not apply"
    OR_NULL = "null where there is nothing"
    NEVER = "made by the reader"


Sometimes = Annotated[T, Sent.SOMETIMES]
OrNull = Annotated[T, Sent.OR_NULL]
Unsent = Annotated[T, Sent.NEVER]


class OneOf(msgspec.Struct, frozen=True):
    """All values of a field that the coordinator sends. A client accepts further values."""

    values: tuple[int | str, ...]


LEFT_OUT: Final[Any] = msgspec.UNSET
"""The value of a ``Sometimes`` or ``Unsent`` field that is left out."""

NULL: Final[Any] = None
"""The value of an ``OrNull`` field that is sent as null."""


def encoded(json: bytes) -> Any:
    """Return ``json``, an encoded value, in a form that an encoder copies unchanged."""
    return msgspec.Raw(json)
