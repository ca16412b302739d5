"""The kind of platform of a quote, which selects its collateral.

The kind is in the PCK certificate. This certificate is authentic only if its chain leads to the
pinned root. Before this check, nothing in the certificate is read, and nothing is fetched.
"""

import functools

from cryptography import x509

from keyhouse.attestation.collateral.platform_kind import PlatformKind, authority_kind
from keyhouse.attestation.collateral.signatures import issued_pck_chain
from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError
from keyhouse.attestation.kinds.table import read_form
from keyhouse.attestation.quote.report import Tee
from keyhouse.wire.der_elements import der_elements

_SGX_EXTENSION = x509.ObjectIdentifier("1.2.840.113741.1.13.1")
_FMSPC_OID = bytes.fromhex("2a864886f84d010d0104")  # 1.2.840.113741.1.13.1.4
_FMSPC_BYTES = 6  # Intel's PCK certificate profile
_SEQUENCE, _OBJECT_ID, _OCTETS = 0x30, 0x06, 0x04


def platform_kind(quote: bytes, root_ca: bytes) -> PlatformKind:
    """Return the kind of platform in ``quote`` (raw, or with the 16-byte header).

    The PCK chain is verified: it ends in ``root_ca``, DER, and each certificate is signed by the
    next. The quote itself is not verified. Raises ``QuoteRefusedError``. Source: Intel, "SGX PCK
    Certificate".
    """
    form = read_form(quote)
    return _kind(form.tee, issued_pck_chain(form.chain, root_ca))


@functools.lru_cache(maxsize=1024)
def _kind(tee: Tee, chain: tuple[bytes, ...]) -> PlatformKind:
    pck, authority, _ = chain
    try:
        fmspc = _fmspc(_sgx_extension(x509.load_der_x509_certificate(pck)))
        ca = authority_kind(x509.load_der_x509_certificate(authority))
    # The exceptions of a parser vary and may contain the bytes.
    except Exception:  # noqa: BLE001
        raise QuoteRefusedError(
            QuoteProblem.CHAIN,
            "the quote's PCK certificate does not state the kind of its platform",
            hint="this version finds no collateral for a certificate of this form: try a newer"
            " version",
        ) from None
    return PlatformKind(tee, fmspc, ca)


def _sgx_extension(certificate: x509.Certificate) -> bytes:
    value = certificate.extensions.get_extension_for_oid(_SGX_EXTENSION).value
    if not isinstance(value, x509.UnrecognizedExtension):
        raise TypeError("the SGX extension of the PCK certificate does not have Intel's form")
    return value.value


def _fmspc(extension: bytes) -> str:
    ((tag, entries),) = der_elements(extension)
    found = []
    for _, entry in der_elements(entries) if tag == _SEQUENCE else ():
        (id_tag, object_id), (value_tag, value) = der_elements(entry)
        if (id_tag, value_tag, object_id) == (_OBJECT_ID, _OCTETS, _FMSPC_OID):
            found.append(value)
    (fmspc,) = found
    if len(fmspc) != _FMSPC_BYTES:
        raise ValueError(
            f"the FMSPC in the PCK certificate has {len(fmspc)} bytes, expected {_FMSPC_BYTES}"
        )
    return fmspc.hex()
