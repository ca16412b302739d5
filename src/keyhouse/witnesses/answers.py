"""The answers of witnesses (C2SP tlog-witness)."""

import msgspec


class Cosigned(msgspec.Struct, frozen=True):
    """The witness cosigned the checkpoint. ``lines`` are signature lines, not yet verified."""

    lines: bytes


class OtherSize(msgspec.Struct, frozen=True):
    """The witness states the ``size`` of its last checkpoint, because the request names another.

    The size is a number of leaves. The answer has no signature, so anybody can have made the
    answer.
    """

    size: int


class Contradicts(msgspec.Struct, frozen=True):
    """The witness states that the checkpoint does not continue its own checkpoint."""


WitnessAnswer = Cosigned | OtherSize | Contradicts
