"""The contents of evidence, for events, the audit trail and the answers about activations."""

from typing import Any

import msgspec


class Measured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The identity of a workload and its platform. Empty fields do not apply to its kind.

    Stored in journals: add fields, never rename. A later kind of evidence uses ``values``.
    """

    platform: bytes = b""  # PPID, 16 bytes; AMD: CHIP_ID, 64 bytes
    mrenclave: bytes = b""
    mrsigner: bytes = b""
    tcb_status: str = ""
    mrtd: bytes = b""  # of a confidential VM; an enclave has mrenclave and mrsigner
    rtmrs: tuple[bytes, ...] = ()  # RTMR0 to RTMR3
    measurement: bytes = b""  # of a confidential VM of AMD
    values: tuple[tuple[str, bytes], ...] = ()  # of any other kind: by field of its identity

    def in_hex(self) -> dict[str, Any]:
        """Return the fields in the form for answers, with bytes in lower-case hex."""
        return {
            "platform": self.platform.hex(),
            "unique_id": self.mrenclave.hex(),
            "signer_id": self.mrsigner.hex(),
            "tcb_status": self.tcb_status,
            "mrtd": self.mrtd.hex(),
            "rtmrs": tuple(register.hex() for register in self.rtmrs),
            "measurement": self.measurement.hex(),
            "values": tuple((name, value.hex()) for name, value in self.values),
        }
