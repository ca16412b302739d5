"""The answers of witnesses (C2SP tlog-witness)."""

import msgspec


class Cosigned(msgspec.Struct, frozen=True):
    """The witness cosigned. ``lines`` are signature lines, not yet verified."""

    lines: bytes


class OtherSize(msgspec.Struct, frozen=True):
    """The witness has a checkpoint of ``size``, not of the named size. This answer is unsigned."""

    size: int


class Contradicts(msgspec.Struct, frozen=True):
    """The witness states that the checkpoint does not continue its own checkpoint."""


WitnessAnswer = Cosigned | OtherSize | Contradicts
