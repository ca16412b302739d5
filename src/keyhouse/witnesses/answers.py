"""What witnesses answer (C2SP tlog-witness)."""

import msgspec


class Cosigned(msgspec.Struct, frozen=True):
    """The witness cosigned: ``lines`` of signatures, not verified."""

    lines: bytes


class OtherSize(msgspec.Struct, frozen=True):
    """The witness has a checkpoint of ``size``, not of the size that was named. It is unsigned."""

    size: int


class Contradicts(msgspec.Struct, frozen=True):
    """The witness says that the checkpoint does not continue the one that it has."""


WitnessAnswer = Cosigned | OtherSize | Contradicts
