"""The status codes of gRPC, and the encoding of their messages.

Source: gRPC, "Status codes and their use in gRPC", and "gRPC over HTTP2", "Responses".
"""

from enum import IntEnum
from typing import Final
from urllib.parse import quote

# Bytes of a message: clients accept 8 KiB of trailers in all.
_LONGEST: Final = 2048
_AS_THEY_ARE: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


class GrpcStatus(IntEnum):
    """A status of gRPC. ``label`` is its name in metrics of Go programs."""

    OK = 0
    CANCELED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16

    @property
    def label(self) -> str:
        """Return ``InvalidArgument`` for ``INVALID_ARGUMENT``, and so on."""
        if self is GrpcStatus.OK:
            return "OK"
        return "".join(word.capitalize() for word in self.name.split("_"))


def as_message(text: str) -> bytes:
    """Return ``text`` as the value of ``grpc-message``, in at most 2048 bytes.

    The value is percent-encoded UTF-8. A longer text is cut, and ends with three dots.
    """
    encoded = quote(text, safe=_AS_THEY_ARE).encode("ascii")
    if len(encoded) <= _LONGEST:
        return encoded
    cut = encoded[: _LONGEST - 3]
    # The cut never divides an escape, whose first of three characters is the percent sign.
    broken = cut.rfind(b"%", len(cut) - 2)
    return (cut if broken < 0 else cut[:broken]) + b"..."
