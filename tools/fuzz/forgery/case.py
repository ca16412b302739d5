"""The form of a case of the attestation targets, and the parts under a signature.

A case lists everything that the rightful signers have signed under its root, as digests of *covered
parts*. A covered part has the exact bytes under a signature, with the identity of the signer.

=============  ==========================================================================
``report``     header and report of a quote, with the attestation key that signed them
``qe``         the quoting enclave's report, with the PCK certificate of the signing key
``cert``       the to-be-signed part of a certificate, with the same part of its issuer
``root-crl``   the to-be-signed part of the root's revocation list
``pck-crl``    the to-be-signed part of the PCK CA's list, with the certificate of this CA
``tcb-info``   the text of the TCB info, with its signer
``qe-id``      the text of the QE identity, with its signer
=============  ==========================================================================

Bytes without a signature may differ: the signatures themselves (a message has many valid
signatures), the 16-byte header in front, CR LF or a missing line end in a PEM chain, and one NUL
after the chain.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from cryptography import x509

from keyhouse.attestation import Collateral

__all__ = [
    "ForgedCase",
    "QuoteParts",
    "certificates",
    "covered_by_collateral",
    "covered_by_quote",
    "part",
    "parts_of_quote",
]

_HEADER_AND_REPORT: Final = {3: 432, 4: 632}
_TDX_5_BODIES: Final = {2: 584, 3: 648}
_TRANSPORT: Final = b"\x01\x00\x00\x00\x02\x00\x00\x00"
_DIGEST: Final = 16


class ForgedCase(msgspec.Struct, frozen=True, array_like=True):
    """A quote with its collateral, verified under ``root`` (DER) at ``at`` (Unix seconds).

    ``signed`` has the digests of all covered parts of rightful signers. The verifier must accept a
    ``genuine`` case.
    """

    root: bytes
    quote: bytes
    collateral: Collateral
    at: int
    signed: frozenset[bytes]
    genuine: bool = False


class QuoteParts(msgspec.Struct, frozen=True):
    """A quote cut at its own lengths. Source: Intel, "DCAP Quoting Library API", A.3 and A.4."""

    version: int
    body: bytes  # header and report, signed by the attestation key
    signature: bytes
    key: bytes
    qe_report: bytes
    qe_signature: bytes
    authentication: bytes
    chain: bytes

    def joined(self) -> bytes:
        """Return the quote of these parts, with their lengths."""
        certified = b"".join(
            (
                self.qe_report,
                self.qe_signature,
                _sized(self.authentication, 2),
                b"\x05\x00",
                _sized(self.chain, 4),
            )
        )
        inner = certified if self.version == 3 else b"\x06\x00" + _sized(certified, 4)
        return self.body + _sized(self.signature + self.key + inner, 4)

    @property
    def report(self) -> bytes:
        """The report without the header."""
        return self.body[54 if self.version == 5 else 48 :]


def parts_of_quote(quote: bytes) -> QuoteParts:
    """Cut a quote into parts. The 16-byte header in front is optional.

    Raises ``ValueError`` or ``LookupError`` for some malformed quotes.
    """
    raw = quote[16:] if quote.startswith(_TRANSPORT) else quote
    version = raw[0]
    if version == 5:
        size = 54 + _TDX_5_BODIES[int.from_bytes(raw[48:50], "little")]
    else:
        size = _HEADER_AND_REPORT[version]
    data = raw[size + 4 :]
    inner = data[128:] if version == 3 else data[134:]
    length = int.from_bytes(inner[448:450], "little")
    return QuoteParts(
        version=version,
        body=raw[:size],
        signature=data[:64],
        key=data[64:128],
        qe_report=inner[:384],
        qe_signature=inner[384:448],
        authentication=inner[450 : 450 + length],
        chain=inner[456 + length :],
    )


def certificates(pem: bytes) -> list[x509.Certificate]:
    """Return the certificates of a chain, leaf first."""
    return x509.load_pem_x509_certificates(pem.removesuffix(b"\0"))


def part(role: str, *pieces: bytes) -> bytes:
    """Return the digest of a covered part."""
    digest = hashlib.sha256(role.encode())
    for piece in pieces:
        digest.update(len(piece).to_bytes(8) + piece)
    return digest.digest()[:_DIGEST]


def covered_by_quote(parts: QuoteParts) -> Iterator[bytes]:
    """Yield the covered parts of a quote with a readable chain."""
    chain = certificates(parts.chain)
    yield part("report", parts.body, parts.key)
    yield part("qe", parts.qe_report, chain[0].tbs_certificate_bytes)
    yield from _links(chain)


def covered_by_collateral(collateral: Collateral) -> Iterator[bytes]:
    """Yield the covered parts of well-formed collateral."""
    ca, *_ = pck = certificates(collateral.pck_crl_issuer_chain.encode())
    tcb_signer, *_ = tcb = certificates(collateral.tcb_info_issuer_chain.encode())
    qe_signer, *_ = qe = certificates(collateral.qe_identity_issuer_chain.encode())
    for chain in (pck, tcb, qe):
        yield from _links(chain)
    root_list = x509.load_der_x509_crl(collateral.root_ca_crl)
    pck_list = x509.load_der_x509_crl(collateral.pck_crl)
    yield part("root-crl", root_list.tbs_certlist_bytes)
    yield part("pck-crl", pck_list.tbs_certlist_bytes, ca.tbs_certificate_bytes)
    yield part("tcb-info", collateral.tcb_info.encode(), tcb_signer.tbs_certificate_bytes)
    yield part("qe-id", collateral.qe_identity.encode(), qe_signer.tbs_certificate_bytes)


def _links(chain: Iterable[x509.Certificate]) -> Iterator[bytes]:
    bodies = [each.tbs_certificate_bytes for each in chain]
    for position, body in enumerate(bodies):
        issuer = bodies[min(position + 1, len(bodies) - 1)]
        yield part("cert", body, issuer)


def _sized(content: bytes, count: int) -> bytes:
    return len(content).to_bytes(count, "little") + content
