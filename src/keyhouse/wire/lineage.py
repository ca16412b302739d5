"""The certificate extension that names the lineage of a workload, with facts of its evidence.

A lineage is an activation with all later renewals of its certificate. From the extension alone, the
coordinator learns the activation behind a certificate. The extension counts only in certificates
signed by the marble root. Readers verify this signature first.

DER: SEQUENCE { INTEGER version (1), OCTET STRING id (16 bytes), UTF8String kind,
UTF8String TCB status, INTEGER time of the evidence (seconds since 1970) }
"""

from typing import Final

import msgspec

from keyhouse.base.byte_reader import der_elements, element, unsigned

LINEAGE: Final = "2.25.2135085704"
"""The object identifier of the certificate extension.

Keyhouse has no registered arc. The last number is the first four bytes of SHA-256 of
``keyhouse lineage v1`` without the highest bit. Go cannot parse the longer numbers of UUIDs.
"""

LINEAGE_DER: Final = bytes.fromhex("06066987fa8ba508")
"""The same identifier in DER."""

ID_SIZE: Final = 16

_SEQUENCE, _INTEGER, _OCTETS, _TEXT = 0x30, 0x02, 0x04, 0x0C
_VERSION: Final = 1
_TAGS: Final = (_INTEGER, _OCTETS, _TEXT, _TEXT, _INTEGER)


class LineageFacts(msgspec.Struct, frozen=True):
    """The value of the certificate extension.

    The value names the lineage of a workload, and has facts about the evidence of this workload.
    """

    id: bytes  # 16 random bytes
    kind: str  # kind of evidence, such as "sgx"; empty: no evidence, in simulation
    tcb_status: str  # empty: the vendor states none, or no evidence
    attested: int  # time of the evidence: seconds since 1970, UTC

    def encode(self) -> bytes:
        """Return the value of the certificate extension, in DER."""
        return element(
            _SEQUENCE,
            unsigned(_VERSION),
            element(_OCTETS, self.id),
            element(_TEXT, self.kind.encode()),
            element(_TEXT, self.tcb_status.encode()),
            unsigned(self.attested),
        )


def read_lineage(value: bytes) -> LineageFacts:
    """Return the facts in ``value``, the DER value of a certificate extension.

    Raises ``ValueError`` for anything except the encoding of a single ``LineageFacts``.
    """
    ((_, content),) = der_elements(value)
    elements = tuple(der_elements(content))
    if tuple(tag for tag, _ in elements) != _TAGS:
        raise ValueError("not a lineage of version 1")
    _, identifier, kind, tcb_status, attested = (part for _, part in elements)
    facts = LineageFacts(identifier, kind.decode(), tcb_status.decode(), int.from_bytes(attested))
    if len(identifier) != ID_SIZE or facts.encode() != value:
        raise ValueError("not a lineage of version 1")
    return facts
