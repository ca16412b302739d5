"""A simulated machine: its keys, and the certificates from its simulated vendor."""

import os
from datetime import datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace

from keyhouse.base.secret import Secret
from keyhouse_simulation.certificates import issue_authority, issue_leaf, pck_extension
from keyhouse_simulation.parameters import Pck

_ROOT = "Keyhouse Simulation Root CA"
_PCK_CA = "Keyhouse Simulation PCK Platform CA"
_TCB_SIGNER = "Keyhouse Simulation TCB Signing"
_PCK = "Keyhouse Simulation PCK Certificate"


class Machine(msgspec.Struct, frozen=True):
    """The keys of a machine, all P-256. A real vendor never gives the first three to a machine."""

    root_key: ec.EllipticCurvePrivateKey
    pck_ca_key: ec.EllipticCurvePrivateKey
    tcb_key: ec.EllipticCurvePrivateKey
    pck_key: ec.EllipticCurvePrivateKey
    attestation_key: ec.EllipticCurvePrivateKey
    root: x509.Certificate
    pck_ca: x509.Certificate
    tcb_signer: x509.Certificate
    pck: x509.Certificate
    sealing_root: Secret  # 32 bytes, in the role of the processor's fuses


def make_machine(now: datetime, pck: Pck | None = None, beside: Machine | None = None) -> Machine:
    """Return a new machine with new keys. New certificates are valid from the day before ``now``.

    ``beside`` is a machine of the same vendor. Without ``beside``, the vendor is new too.
    """
    root_key, ca_key, tcb_key, pck_key, attestation_key = (
        ec.generate_private_key(ec.SECP256R1()) for _ in range(5)
    )
    start = now.replace(microsecond=0) - timedelta(days=1)
    extension = pck_extension(pck or Pck(ppid=os.urandom(16)))
    if beside is not None:
        return replace(
            beside,
            pck_key=pck_key,
            attestation_key=attestation_key,
            pck=issue_leaf(_PCK, pck_key, (_PCK_CA, beside.pck_ca_key), start, extension),
            sealing_root=Secret(os.urandom(32)),
        )
    return Machine(
        root_key=root_key,
        pck_ca_key=ca_key,
        tcb_key=tcb_key,
        pck_key=pck_key,
        attestation_key=attestation_key,
        root=issue_authority(_ROOT, root_key, (_ROOT, root_key), start),
        pck_ca=issue_authority(_PCK_CA, ca_key, (_ROOT, root_key), start),
        tcb_signer=issue_leaf(_TCB_SIGNER, tcb_key, (_ROOT, root_key), start),
        pck=issue_leaf(_PCK, pck_key, (_PCK_CA, ca_key), start, extension),
        sealing_root=Secret(os.urandom(32)),
    )


def sign(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """Return the ECDSA signature with SHA-256 as r, s: 32 bytes each, big-endian."""
    r, s = decode_dss_signature(key.sign(message, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def pem(*certificates: x509.Certificate) -> str:
    """Return a chain of PEM certificates in the given order."""
    return "".join(c.public_bytes(Encoding.PEM).decode() for c in certificates)
