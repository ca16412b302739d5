"""The kinds of platforms with common collateral."""

from enum import StrEnum

import msgspec
from cryptography import x509

from keyhouse.attestation.quote.report import Tee


class PckCa(StrEnum):
    """Intel's CA that issued the PCK certificate.

    A PCK certificate belongs to a platform, and certifies the key behind the platform's quotes.
    """

    PLATFORM = "platform"
    PROCESSOR = "processor"


class PlatformKind(msgspec.Struct, frozen=True, order=True):
    """Platforms with common collateral.

    ``fmspc``: Intel's number of the platform's model and type, 12 lower-case hex digits.
    """

    tee: Tee
    fmspc: str
    ca: PckCa

    def __str__(self) -> str:
        return f"{self.tee}-{self.fmspc}-{self.ca}"


def authority_kind(certificate: x509.Certificate) -> PckCa:
    """Return which PCK CA has the CA certificate ``certificate``.

    Raises ``ValueError`` for any other certificate.
    """
    (name,) = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    for kind in PckCa:
        if str(name.value).endswith(f" PCK {kind.title()} CA"):
            return kind
    raise ValueError("the PCK certificate has no known PCK CA as issuer")
