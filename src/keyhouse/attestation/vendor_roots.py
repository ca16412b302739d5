"""The vendors' root certificates: the trust anchors of hardware quotes.

The file ``vendor_roots.pem`` holds the certificates. The digests here pin each certificate as a
whole, so a different certificate with the same key is refused. A changed file stops every start.
People can compare the digests with the vendors' publications.

Public origin of Intel's root, for SGX and TDX:
https://certificates.trustedservices.intel.com/IntelSGXRootCA.der ("Intel SGX Root CA", valid until
the end of 2049).

Public origin of AMD's roots (ARK), for SEV-SNP, one for each line of CPUs:
https://kdsintf.amd.com/vcek/v1/Milan/cert_chain, and the same for Genoa and Turin. The root is the
second certificate. Taken from github.com/google/go-sev-guest 0.15.0 (``verify/trust``) and compared
with the crate sev 8.0.0 (``src/certs/snp/builtin``), both Apache-2.0.
"""

import ssl
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

INTEL_SGX_ROOT_SHA256 = "44a0196b2b99f889b8e149e95b807a350e7424964399e885a7cbb8ccfab674d3"
"""SHA-256 of the DER certificate, lower-case hex."""

AMD_ROOTS_SHA256: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Milan": "69d063b45344d26a2e94e1f4210de49ef555308287d4c174445c95639a540bcd",
        "Genoa": "4c6598d19c18719c5dfd4a7d335f674e5bfe1d8f800cea2cf270c10d103db2f1",
        "Turin": "1f084161a44bb6d93778a904877d4819cafa5d05ef4193b2ded9dd9c73dd3f6a",
    }
)
"""SHA-256 of each DER certificate, lower-case hex."""

_BEGIN: Final = "-----BEGIN CERTIFICATE-----\n"
_END: Final = "-----END CERTIFICATE-----\n"


def _pinned() -> dict[str, bytes]:
    """Return the certificates in the file, DER, by their SHA-256 in lower-case hex."""
    text = Path(__file__).with_suffix(".pem").read_text(encoding="ascii")
    bodies = (part.partition(_END)[0] for part in text.split(_BEGIN)[1:])
    found = [ssl.PEM_cert_to_DER_cert(_BEGIN + body + _END) for body in bodies]
    return {sha256(der).hexdigest(): der for der in found}


_PINNED: Final = _pinned()

INTEL_SGX_ROOT: Final = _PINNED[INTEL_SGX_ROOT_SHA256]
"""The certificate, DER."""

AMD_ROOTS: Final[Mapping[str, bytes]] = MappingProxyType(
    {line: _PINNED[digest] for line, digest in AMD_ROOTS_SHA256.items()}
)
"""The certificates, DER, by name of the line. Bergamo and Siena use the root of Genoa."""
