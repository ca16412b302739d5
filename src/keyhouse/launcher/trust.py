"""Verify the peer at the coordinator's address, and the delivered parameters.

The workload listener serves the marble root. This certificate is self-signed with the key of the
intermediate, and the root has signed the intermediate. So the certificate does not chain to the
root, but its key does. The pin has three parts:

1. The handshake proves that the peer has the private key of its certificate.
2. That certificate is self-signed, is a CA, and has key and subject of the intermediate.
3. The intermediate is a CA and is signed by the root. The root is the anchor: a verified quote
   binds it, or it came with the image of the workload. The root signs intermediates only.

So the peer has the key of an intermediate of that root. Chain validation with a host name would not
be enough: workloads have certificates below the same root, perhaps for the same name.

With a known intermediate, the handshake checks all parts before any request is sent. With the root
alone, the answer delivers the intermediate, and the check precedes any use of the answer. Earlier
the peer received a quote, names and a type. These are not secret, and the quote is bound to a key
that only this process has.

The answer must match in any case. Its chain ends at the served root, its certificate is for this
UUID and type, and the private key belongs to that certificate.

Parsers raise various errors for an unverified certificate (versions, extensions, keys). After any
error the certificate is rejected.
"""

import hmac
import uuid
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from keyhouse.base.secret import Secret
from keyhouse.client.pem_faults import certificate_fault
from keyhouse.launcher.errors import CoordinatorNotTrustedError
from keyhouse.wire import workload_api
from keyhouse.wire.lineage import LINEAGE

MARBLE_TYPE: Final = x509.ObjectIdentifier(workload_api.MARBLE_TYPE)
_LINEAGE: Final = x509.ObjectIdentifier(LINEAGE)

_CHAIN: Final = 2  # intermediate and root

_ROOT: Final = "MARBLE_PREDEFINED_ROOT_CA"
_LEAF_CHAIN: Final = "MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"
_KEY: Final = "MARBLE_PREDEFINED_PRIVATE_KEY"
_COORDINATOR_ROOT: Final = "MARBLE_PREDEFINED_COORDINATOR_ROOT_CA"


class Anchor(NamedTuple):
    """The trusted deployment, by its certificates (DER)."""

    root: bytes
    intermediate: bytes | None = None  # None: the answer delivers it


def read_anchor(pem: bytes, where: str) -> Anchor:
    """Return the anchor in ``pem``: the root alone, or the intermediate, then the root.

    ``where`` names the file. Raises ``CoordinatorNotTrustedError`` for any other content.
    """
    try:
        chain = x509.load_pem_x509_certificates(pem)
    except Exception:  # noqa: BLE001 - see above
        chain = []
    if not 1 <= len(chain) <= _CHAIN:
        fault = certificate_fault(pem)
        problem = f"has {len(chain)} certificates" if chain else fault.problem
        raise CoordinatorNotTrustedError(
            f"{where} {problem}",
            hint="name a PEM file with the coordinator's root, or its intermediate and then its"
            " root",
        )
    root = chain[-1]
    _require(
        _is_ca(root) and _has_signed(root, root), f"{where} does not end in a root certificate"
    )
    if len(chain) == 1:
        return Anchor(_der(root))
    require_issued(_der(chain[0]), _der(root))
    return Anchor(_der(root), _der(chain[0]))


def require_issued(intermediate: bytes, root: bytes) -> None:
    """Raise ``CoordinatorNotTrustedError`` unless ``root`` has signed ``intermediate``, a CA."""
    child = _certificate(intermediate, "the intermediate certificate")
    parent = _certificate(root, "the root certificate")
    _require(
        _is_ca(child) and _has_signed(parent, child) and not _same_key(child, parent),
        "the intermediate certificate is not a CA that the trusted root has signed",
    )


def require_served(served: bytes, anchor: Anchor | None) -> None:
    """Raise ``CoordinatorNotTrustedError`` unless ``served`` (DER) can be the marble root.

    ``served`` is the certificate in the coordinator's TLS handshake. It must be a self-signed CA.
    If ``anchor`` has an intermediate, ``served`` must have the key and subject of this
    intermediate.
    """
    root = _certificate(served, "the TLS certificate")
    _require(
        _is_ca(root) and _has_signed(root, root),
        "the TLS certificate is not a marble root (a self-signed CA)",
    )
    if anchor is not None and anchor.intermediate is not None:
        _require_twins(root, _certificate(anchor.intermediate, "the intermediate certificate"))


def require_answer(
    env: Mapping[str, Secret], *, served: bytes, anchor: Anchor | None, who: uuid.UUID, kind: str
) -> None:
    """Raise ``CoordinatorNotTrustedError`` unless the variables ``env`` match peer and request.

    ``served`` is the peer's certificate in the handshake. ``who`` and ``kind`` are the requested
    UUID and marble type.
    """
    [root] = _certificates_in(env, _COORDINATOR_ROOT, 1)
    [marble_root] = _certificates_in(env, _ROOT, 1)
    leaf, intermediate = _certificates_in(env, _LEAF_CHAIN, _CHAIN)
    if anchor is not None:
        _require(_equal(_der(root), anchor.root), "the delivered root is not the trusted root")
        same = anchor.intermediate is None or _equal(_der(intermediate), anchor.intermediate)
        _require(same, "the delivered intermediate is not the trusted intermediate")
    _require(
        _equal(_der(marble_root), served),
        "the delivered marble root is not the TLS certificate of the coordinator",
    )
    require_issued(_der(intermediate), _der(root))
    _require_twins(marble_root, intermediate)
    _require(
        not _is_ca(leaf) and _has_signed(marble_root, leaf),
        "the delivered certificate is not signed by the marble root",
    )
    _require_own(leaf, who, kind)
    _require_key(env.get(_KEY), leaf)


def require_deployment(served: bytes, intermediate: bytes, root: bytes) -> None:
    """Raise ``CoordinatorNotTrustedError`` unless ``served`` belongs to the deployment of ``root``.

    ``served`` is the coordinator's certificate in the TLS handshake. It must have key and subject
    of ``intermediate``, which ``root`` must have signed. All certificates are in DER.
    """
    require_issued(intermediate, root)
    _require_twins(
        _certificate(served, "the TLS certificate"),
        _certificate(intermediate, "the intermediate certificate"),
    )


def require_renewed(
    chain: Sequence[bytes],
    *,
    request: bytes,
    served: bytes,
    intermediate: bytes,
    who: uuid.UUID,
    kind: str,
) -> None:
    """Raise ``CoordinatorNotTrustedError`` unless ``chain`` answers the renewal of this workload.

    ``chain`` has the new leaf and the ``intermediate``. ``request`` is the signing request (PKCS
    #10) of the new key. ``served`` is the coordinator's certificate in the handshake. All are DER.
    ``who`` and ``kind`` are the UUID and the marble type of the workload.
    """
    _require(len(chain) == _CHAIN, "the renewed chain does not have two certificates")
    leaf = _certificate(chain[0], "the renewed certificate")
    _require(_equal(chain[1], intermediate), "the renewed chain has another intermediate")
    marble_root = _certificate(served, "the TLS certificate")
    _require(
        not _is_ca(leaf) and _has_signed(marble_root, leaf),
        "the renewed certificate is not signed by the marble root",
    )
    _require_own(leaf, who, kind)
    key = x509.load_der_x509_csr(request).public_key()
    own = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    _require(_equal(_public(leaf), own), "the renewed certificate is for another key")


def has_lineage(leaf: bytes) -> bool:
    """Return whether the certificate ``leaf`` (DER) has a lineage: the coordinator renews it."""
    certificate = _certificate(leaf, "the delivered certificate")
    return _extension(certificate, _LINEAGE) is not None


def _require_own(leaf: x509.Certificate, who: uuid.UUID, kind: str) -> None:
    names = [str(name.value) for name in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    _require(names == [str(who)], "the delivered certificate is for another UUID")
    _require(
        _extension(leaf, MARBLE_TYPE) == kind.encode("utf-8"),
        "the delivered certificate is for another marble type",
    )


def _require_key(pem: Secret | None, leaf: x509.Certificate) -> None:
    try:
        key = load_pem_private_key(pem.reveal(), None).public_key() if pem is not None else None
        fits = key is not None and key == leaf.public_key()
    except Exception:  # noqa: BLE001 - see above
        fits = False
    _require(fits, "the delivered private key does not belong to the delivered certificate")


def _require_twins(marble_root: x509.Certificate, intermediate: x509.Certificate) -> None:
    _require(
        _same_key(marble_root, intermediate) and marble_root.subject == intermediate.subject,
        "the TLS certificate does not have key and subject of the intermediate certificate",
    )


def _certificates_in(
    env: Mapping[str, Secret], name: str, count: int
) -> Sequence[x509.Certificate]:
    value = env.get(name)
    try:
        certificates = x509.load_pem_x509_certificates(value.reveal()) if value is not None else []
    except Exception:  # noqa: BLE001 - see above
        certificates = []
    _require(
        len(certificates) == count, f"{name} has {len(certificates)} certificates, expected {count}"
    )
    return certificates


def _certificate(der: bytes, what: str) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except Exception:  # noqa: BLE001 - see above
        raise _untrusted(f"{what} cannot be read") from None


def _is_ca(certificate: x509.Certificate) -> bool:
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except Exception:  # noqa: BLE001 - see above
        return False
    return constraints.value.ca


def _has_signed(parent: x509.Certificate, child: x509.Certificate) -> bool:
    try:
        child.verify_directly_issued_by(parent)
    except Exception:  # noqa: BLE001 - see above
        return False
    return True


def _extension(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> bytes | None:
    try:
        extension = certificate.extensions.get_extension_for_oid(oid).value
    except Exception:  # noqa: BLE001 - see above
        return None
    return extension.value if isinstance(extension, x509.UnrecognizedExtension) else None


def _same_key(one: x509.Certificate, other: x509.Certificate) -> bool:
    return _equal(_public(one), _public(other))


def _public(certificate: x509.Certificate) -> bytes:
    try:
        key = certificate.public_key()
    except Exception:  # noqa: BLE001 - see above
        raise _untrusted("a key in the coordinator's certificates cannot be read") from None
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def _equal(one: bytes, other: bytes) -> bool:
    return hmac.compare_digest(one, other)


def _require(holds: bool, problem: str) -> None:  # noqa: FBT001 reads as a sentence
    if not holds:
        raise _untrusted(problem)


def _untrusted(problem: str) -> CoordinatorNotTrustedError:
    return CoordinatorNotTrustedError(f"the coordinator is not trusted: {problem}")
