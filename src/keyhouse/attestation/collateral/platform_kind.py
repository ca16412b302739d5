"""The kinds of platforms with common collateral."""

from enum import StrEnum

import msgspec
from cryptography import x509

from keyhouse.attestation.quote.report import Tee


class PckCa(StrEnum):
    """The vendor's authority that issued the PCK certificate."""

    PLATFORM = "platform"
    PROCESSOR = "processor"


class PlatformKind(msgspec.Struct, frozen=True, order=True):
    """Platforms with common collateral. ``fmspc``: 12 lower-case hex digits."""

    tee: Tee
    fmspc: str
    ca: PckCa

    def __str__(self) -> str:
        return f"{self.tee}-{self.fmspc}-{self.ca}"


def authority_kind(certificate: x509.Certificate) -> PckCa:
    """Return which PCK CA a certificate belongs to. Raises ``ValueError`` for an unknown CA."""
    (name,) = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    for kind in PckCa:
        if str(name.value).endswith(f" PCK {kind.title()} CA"):
            return kind
    raise ValueError("the PCK certificate has no known PCK CA as issuer")
