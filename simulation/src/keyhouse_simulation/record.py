"""The file form of a machine: keys as PKCS #8 and certificates as DER, both in hex.

A checksum covers the whole content. Without the checksum, nobody would notice a changed digit of
the sealing root, and the machine could unseal no old state.
"""

import binascii
import hashlib

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from keyhouse.base.secret import Secret
from keyhouse_simulation.machine import Machine

MAX_RECORD = 65_536
_VERSION = 1
_SEALING_ROOT = 32
_KEYS = ("root_key", "pck_ca_key", "tcb_key", "pck_key", "attestation_key")
_CERTIFICATES = {
    "root": "root_key",
    "pck_ca": "pck_ca_key",
    "tcb_signer": "tcb_key",
    "pck": "pck_key",
}


class UnusableRecordError(Exception):
    """The file is not an unchanged machine. ``problem`` names the fault without file content."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    keys: dict[str, str]
    certificates: dict[str, str]
    sealing_root: str
    checksum: str = ""  # SHA-256 over the compact JSON of the fields above


def write_record(machine: Machine) -> bytes:
    """Return the file of ``machine``. The file contains the machine's secrets in plain form."""
    record = _Record(
        version=_VERSION,
        keys={name: _pkcs8(getattr(machine, name)).hex() for name in _KEYS},
        certificates={
            name: getattr(machine, name).public_bytes(serialization.Encoding.DER).hex()
            for name in _CERTIFICATES
        },
        sealing_root=machine.sealing_root.reveal().hex(),
    )
    record = msgspec.structs.replace(record, checksum=_checksum(record))
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def read_record(data: bytes) -> Machine:
    """Return the machine in ``data``, after a check that keys and certificates match.

    Raises ``UnusableRecordError``.
    """
    record = _decode(data)
    if record.version != _VERSION:
        raise UnusableRecordError(
            f"has version {record.version}; this program reads version {_VERSION}"
        )
    if record.checksum != _checksum(record):
        raise UnusableRecordError("was changed: its checksum is wrong")
    if set(record.keys) != set(_KEYS) or set(record.certificates) != set(_CERTIFICATES):
        raise UnusableRecordError("has a missing or an unknown key or certificate")
    try:
        return _machine(record)
    # The errors of the parsers differ by version, and may contain a part of the input.
    except Exception:  # noqa: BLE001
        raise UnusableRecordError("contains keys and certificates that do not match") from None


def _machine(record: _Record) -> Machine:
    keys = {name: _key(text) for name, text in record.keys.items()}
    certificates = {name: _certificate(text) for name, text in record.certificates.items()}
    sealing_root = Secret(binascii.unhexlify(record.sealing_root))
    if len(sealing_root) != _SEALING_ROOT:
        raise ValueError("sealing root")
    for name, certificate in certificates.items():
        if certificate.public_key() != keys[_CERTIFICATES[name]].public_key():
            raise ValueError("certificate of another key")
    return Machine(
        root_key=keys["root_key"],
        pck_ca_key=keys["pck_ca_key"],
        tcb_key=keys["tcb_key"],
        pck_key=keys["pck_key"],
        attestation_key=keys["attestation_key"],
        root=certificates["root"],
        pck_ca=certificates["pck_ca"],
        tcb_signer=certificates["tcb_signer"],
        pck=certificates["pck"],
        sealing_root=sealing_root,
    )


def _checksum(record: _Record) -> str:
    rest = msgspec.json.encode(msgspec.structs.replace(record, checksum=""))
    return hashlib.sha256(rest).hexdigest()


def _decode(data: bytes) -> _Record:
    if len(data) > MAX_RECORD:
        raise UnusableRecordError(f"has more than {MAX_RECORD} bytes")
    try:
        return msgspec.json.decode(data, type=_Record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UnusableRecordError("is not the JSON object of a machine") from None


def _pkcs8(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _key(text: str) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_der_private_key(binascii.unhexlify(text), password=None)
    if not (isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp256r1"):
        raise ValueError("not P-256")
    return key


def _certificate(text: str) -> x509.Certificate:
    return x509.load_der_x509_certificate(binascii.unhexlify(text))
