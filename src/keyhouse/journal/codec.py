"""Encode the values in the journal as canonical MessagePack."""

from functools import cached_property
from types import GenericAlias
from typing import Any, Generic, TypeVar, get_args, get_origin

import immutables
import msgspec

from keyhouse.base.errors import BrokenError
from keyhouse.base.secret import Secret

T = TypeVar("T")


class UndecodableError(BrokenError):
    """The verified bytes do not encode a value of the expected type."""

    code = "undecodable"


class UnencodableError(BrokenError):
    """The encoding of a value would not decode to an equal value."""

    code = "unencodable"


class Codec(Generic[T]):
    """Encode and decode values of ``kind``, any type of msgspec.

    Equal values give equal bytes in every process: map keys and sets are sorted, and fields keep
    their order. Keys of maps are strings. ``Secret`` becomes bytes and decodes to a Secret;
    ``immutables.Map`` is a map.
    """

    def __init__(self, kind: Any, *, name: str = "") -> None:
        self._kind = kind
        self._name = name or getattr(kind, "__name__", "value")
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_lower, order="deterministic")

    @cached_property
    def _decoder(self) -> "msgspec.msgpack.Decoder[T]":
        """Return the decoder, built at its first use, which takes a millisecond for all events."""
        return msgspec.msgpack.Decoder(self._kind, dec_hook=_lift)

    def encode(self, value: T) -> bytes:
        """Return the canonical bytes. This is fast, because msgspec does not check types here."""
        try:
            return self._encoder.encode(value)
        except Exception:  # noqa: BLE001 - any error may quote the value
            raise UnencodableError(f"a {self._name} cannot be encoded") from None

    def encode_checked(self, value: T) -> bytes:
        """Return the canonical bytes, after a check that they decode to an equal value."""
        encoded = self.encode(value)
        try:
            back = self._decoder.decode(encoded)
        except Exception:  # noqa: BLE001 - any error may quote the value
            raise UnencodableError(
                f"the encoding of a {self._name} does not decode again"
            ) from None
        if back != value:
            raise UnencodableError(f"the encoding of a {self._name} would decode to another value")
        return encoded

    def decode(self, encoded: bytes) -> T:
        """Return the value of the type ``kind`` in ``encoded``.

        An ``UndecodableError`` does not quote the bytes.
        """
        try:
            return self._decoder.decode(encoded)
        except Exception:  # noqa: BLE001 - any error may quote the value
            raise UndecodableError(
                f"stored bytes are not a {self._name}",
                hint="the store was written by another version, or this version has a fault",
            ) from None


def _lower(value: object) -> object:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, immutables.Map):
        return dict(value.items())
    raise NotImplementedError


def _lift(kind: Any, value: Any) -> object:
    if kind is Secret and isinstance(value, bytes):
        return Secret(value)
    if get_origin(kind) is immutables.Map:
        plain = GenericAlias(dict, get_args(kind))
        return immutables.Map(msgspec.convert(value, plain, dec_hook=_lift))
    raise NotImplementedError
