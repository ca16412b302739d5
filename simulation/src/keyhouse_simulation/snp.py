"""SEV-SNP reports of the simulated machine, and the certificate of the machine's key.

The key (VCEK) and CHIP_ID are derived from the machine's sealing root. A real processor derives
them from fuses.
"""

import ssl
import struct
from functools import cached_property

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.attestation.kinds.snp.form import SnpCertificate, write_table
from keyhouse.wire.kinds.snp import SnpIdentity
from keyhouse_simulation import amd_vendor
from keyhouse_simulation.amd_certificates import issue_endorsement
from keyhouse_simulation.machine import Machine
from keyhouse_simulation.parameters import KeyEndorsement, QuotedSnp

ROOT = amd_vendor.ROOT_DER
"""The root of the simulated AMD, DER."""

_ASK = ssl.PEM_cert_to_DER_cert(amd_vendor.ASK)
_INFO = b"keyhouse simulation SEV-SNP v1"
_HALF = 72
_SIGNATURE = 512
_CURVE_ORDER_BITS = 376  # fewer bits than the order of P-384, so any such number is a valid key


class SnpChip:
    """The security processor of a machine. Threads may share a chip."""

    def __init__(self, machine: Machine) -> None:
        derived = HKDF(hashes.SHA384(), 64 + _CURVE_ORDER_BITS // 8, salt=None, info=_INFO)
        secret = derived.derive(machine.sealing_root.reveal())
        self.chip_id = secret[:64]
        self._key = ec.derive_private_key(int.from_bytes(secret[64:], "big") | 1, ec.SECP384R1())

    @cached_property
    def vcek(self) -> bytes:
        """The certificate of the chip's key, DER."""
        return self.endorsed(KeyEndorsement(chip=self.chip_id))

    def endorsed(self, endorsement: KeyEndorsement) -> bytes:
        """Return a certificate of the chip's key with the content ``endorsement``, DER."""
        is_vlek = endorsement.name == "SEV-VLEK"
        issuer = ("SEV-VLEK-Genoa" if is_vlek else "SEV-Genoa", amd_vendor.ask_key())
        certificate = issue_endorsement(endorsement, self._key.public_key(), issuer)
        return certificate.public_bytes(Encoding.DER)

    def quote(self, vm: QuotedSnp, report_data: bytes) -> bytes:
        """Return a report of ``vm`` over exactly 64 bytes, followed by its certificates."""
        certificates = {SnpCertificate.VCEK: self.vcek, SnpCertificate.ASK: _ASK,
                        SnpCertificate.ARK: ROOT}  # fmt: skip
        return self.report(vm, report_data) + write_table(certificates)

    def report(self, vm: QuotedSnp, report_data: bytes) -> bytes:
        """Return the report of ``vm``, 1,184 bytes. Source: AMD, 56860, "ATTESTATION_REPORT"."""
        if len(report_data) != 64:  # noqa: PLR2004 as the docstring says
            raise ValueError(f"report data has {len(report_data)} bytes, must be 64")
        return self.signed(_unsigned(vm, self.chip_id, report_data))

    def signed(self, content: bytes) -> bytes:
        """Return ``content``, 672 bytes, with the chip's signature over it."""
        r, s = decode_dss_signature(self._key.sign(content, ec.ECDSA(hashes.SHA384())))
        halves = r.to_bytes(_HALF, "little") + s.to_bytes(_HALF, "little")
        return content + halves.ljust(_SIGNATURE, b"\0")


def _unsigned(vm: QuotedSnp, chip_id: bytes, report_data: bytes) -> bytes:
    model = vm.model if vm.version > 2 else b""  # noqa: PLR2004 version 2 has no model
    return struct.pack(
        "<II8s16s16sII8sQII64s48s32s48s48s32s32s8s24s64s8s8s8s168s",
        vm.version,
        vm.guest_svn,
        vm.policy,
        vm.family_id,
        vm.image_id,
        vm.vmpl,
        1,  # ECDSA P-384 with SHA-384
        vm.current_tcb,
        vm.platform_info,
        vm.signer_info,
        0,
        report_data,
        vm.measurement,
        vm.host_data,
        vm.id_key_digest,
        vm.author_key_digest,
        b"SIMULATED REPORT ID, NOT RANDOM.",
        b"\xff" * 32,  # no migration agent
        vm.reported_tcb,
        model,
        chip_id,
        vm.committed_tcb,
        bytes.fromhex("1f37010001370100"),  # firmware 1.55.31
        vm.launch_tcb,
        b"",
    )


def snp_vm_named(identity: SnpIdentity, other: QuotedSnp) -> QuotedSnp:
    """Return the VM with the fields of ``identity``. Missing fields come from ``other``."""
    named = {
        "measurement": identity.measurement,
        "host_data": identity.host_data,
        "id_key_digest": identity.id_key_digest,
        "author_key_digest": identity.author_key_digest,
        "family_id": identity.family_id,
        "image_id": identity.image_id,
        "policy": identity.policy,
    }
    given = {field: bytes.fromhex(value) for field, value in named.items() if value}
    has_author = int(any(given.get("author_key_digest", b"")))
    return msgspec.structs.replace(
        other,
        **given,
        vmpl=identity.vmpl,
        guest_svn=max(other.guest_svn, identity.minimum_guest_svn),
        signer_info=has_author,
    )
