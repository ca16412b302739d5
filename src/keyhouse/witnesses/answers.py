"""The answers of witnesses (C2SP tlog-witness)."""

import msgspec


class Cosigned(msgspec.Struct, frozen=True):
    """The witness cosigned the checkpoint. ``lines`` are signature lines, not yet verified."""

    lines: bytes


class OtherSize(msgspec.Struct, frozen=True):
    """The witness states that its last checkpoint has ``size`` leaves, unlike the request.

    This answer has no signature, so anybody can have made it.
    """

    size: int


class Contradicts(msgspec.Struct, frozen=True):
    """The witness states that the checkpoint does not continue its own checkpoint."""


WitnessAnswer = Cosigned | OtherSize | Contradicts
