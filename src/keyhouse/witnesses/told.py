"""What witnesses answer (C2SP tlog-witness)."""

from typing import NamedTuple


class Cosigned(NamedTuple):
    """The witness cosigned: ``lines`` of signatures, not verified."""

    lines: bytes


class OtherSize(NamedTuple):
    """The witness has a checkpoint of ``size``, not of the size that was named. It is unsigned."""

    size: int


class Contradicts(NamedTuple):
    """The witness says that the checkpoint does not continue the one that it has."""


Told = Cosigned | OtherSize | Contradicts
