"""Identities of workloads on the simulated machine: enclaves and confidential VMs."""

import hashlib
import json
from typing import Any, Self

import msgspec

from keyhouse.attestation import Measurements
from keyhouse.attestation.platforms.find import SIMULATED_AMD
from keyhouse.base.hex_repr import Readable
from keyhouse.wire.kinds.snp import SnpIdentity
from keyhouse.wire.kinds.tdx import TdxIdentity


class Enclave(Readable, frozen=True):
    """The identity of a simulated enclave, for its quotes and for packages of a manifest."""

    # MRENCLAVE, 32 bytes: this build only.
    unique_id: bytes
    # MRSIGNER, 32 bytes: the signer.
    signer_id: bytes
    # ISVPRODID.
    product_id: int
    # ISVSVN.
    security_version: int

    @property
    def package(self) -> dict[str, Any]:
        """An element of ``Packages`` that admits only this build."""
        return {"UniqueID": self.unique_id.hex()}

    @property
    def package_by_signer(self) -> dict[str, Any]:
        """An element of ``Packages`` that admits this and later versions of the product."""
        return {
            "SignerID": self.signer_id.hex(),
            "ProductID": self.product_id,
            "SecurityVersion": self.security_version,
        }

    @property
    def measurements(self) -> Measurements:
        """The measurements for the simulated machine."""
        return Measurements(self.unique_id, self.signer_id, self.product_id, self.security_version)

    @property
    def identity_file(self) -> bytes:
        """The content of a file for ``keyhouse run --simulated-identity``."""
        return json.dumps(self.package | self.package_by_signer).encode()


def enclave(
    name: str, *, signer: str = "the team", product_id: int = 1, security_version: int = 1
) -> Enclave:
    """Return the enclave ``name``. Equal values, and only equal values, yield the same enclave.

    ``name`` represents a build, and ``signer`` a key. Their SHA-256 takes the place of the hashes
    that hardware would measure. ``security_version``, from 1 to 65,535, belongs to the build, too.
    """
    build = f"{name}\0{signer}\0{product_id}\0{security_version}"
    return Enclave(_id("build", build), _id("signer", signer), product_id, security_version)


def _id(kind: str, text: str) -> bytes:
    return hashlib.sha256(f"keyhouse testing {kind}\0{text}".encode()).digest()


_REGISTER = 48  # bytes: SHA-384
_Registers = tuple[bytes, bytes, bytes, bytes]


class ConfidentialVm(Readable, frozen=True):
    """The identity of a simulated TDX VM, for its quotes and for packages of a manifest."""

    # 48 bytes: the firmware.
    mrtd: bytes
    # 48 bytes each: the measurements of the boot, and of the VM itself.
    rtmrs: _Registers
    # MRCONFIGID, 48 bytes: zeros if the host sets no value.
    config_id: bytes

    def extended(self, register: int, event: bytes) -> Self:
        """Return the VM after the measurement of ``event`` into RTMR ``register``, 0 to 3."""
        rtmrs = list(self.rtmrs)
        rtmrs[register] = _extended(rtmrs[register], event)
        return msgspec.structs.replace(self, rtmrs=(*rtmrs,))

    @property
    def package(self) -> dict[str, Any]:
        """An element of ``Packages`` that admits only this image after the same boot."""
        return {"TDX": msgspec.to_builtins(self.measurements)}

    @property
    def measurements(self) -> TdxIdentity:
        """The identity for the simulated machine. Other fields have the values of that machine."""
        owner = owner_config = bytes(_REGISTER)
        values = (self.mrtd, *self.rtmrs, self.config_id, owner, owner_config)
        return TdxIdentity(*(value.hex() for value in values))

    @property
    def identity_file(self) -> bytes:
        """The content of a file for ``keyhouse run --simulated-identity``."""
        return json.dumps(self.package).encode()


def confidential_vm(
    name: str, *, firmware: str = "the firmware", command_line: str = "", config: bytes = b""
) -> ConfidentialVm:
    """Return the VM that boots the image ``name``. Only equal values yield the same VM.

    The arguments stand for the measured parts of a boot: ``firmware`` (MRTD, RTMR0), the kernel of
    ``name`` (RTMR1), ``command_line`` and the initial RAM disk of ``name`` (RTMR2). RTMR3 is zeros
    until ``extended``. MRCONFIGID is the SHA-384 of the document ``config``.
    """
    empty = bytes(_REGISTER)
    booted = _extended(empty, f"command line\0{command_line}".encode())
    return ConfidentialVm(
        _digest(f"firmware\0{firmware}".encode()),
        (
            _extended(empty, f"configuration of {firmware}".encode()),
            _extended(empty, f"kernel of {name}".encode()),
            _extended(booted, f"initial RAM disk of {name}".encode()),
            empty,
        ),
        _digest(config) if config else empty,
    )


def _extended(register: bytes, event: bytes) -> bytes:
    """Return the value of an RTMR ``register`` after the measurement of ``event``.

    Source: Intel TDX module, "RTMR extend".
    """
    return _digest(register + _digest(event))


def _digest(content: bytes) -> bytes:
    return hashlib.sha384(content).digest()


class SnpVm(Readable, frozen=True):
    """The identity of a simulated SEV-SNP VM, for its reports and for packages of a manifest."""

    # 48 bytes: the measurement of the launch.
    measurement: bytes
    # 32 bytes: zeros if the host sets no value.
    host_data: bytes

    @property
    def package(self) -> dict[str, Any]:
        """An element of ``Packages`` that admits only this image, on the firmware of the machine.

        ``package["SNP"]["MinimumTCB"]`` has the versions of that firmware.
        """
        return {"SNP": msgspec.to_builtins(self.measurements)}

    @property
    def measurements(self) -> SnpIdentity:
        """The identity for the simulated machine. Other fields have the values of that machine."""
        return SnpIdentity(
            measurement=self.measurement.hex(),
            host_data=self.host_data.hex(),
            product=SIMULATED_AMD.product,
            minimum_tcb=SIMULATED_AMD.tcb,
        )

    @property
    def identity_file(self) -> bytes:
        """The content of a file for ``keyhouse run --simulated-identity``."""
        return json.dumps(self.package).encode()


def snp_vm(
    name: str, *, firmware: str = "the firmware", command_line: str = "", config: bytes = b""
) -> SnpVm:
    """Return the VM that boots the image ``name``. Only equal values yield the same VM.

    The launch measurement stands for ``firmware``, ``command_line``, and the kernel and initial
    RAM disk of ``name``. HOST_DATA is the SHA-256 of the document ``config``.
    """
    launched = json.dumps([firmware, name, command_line]).encode()
    return SnpVm(
        hashlib.sha384(b"keyhouse testing launch\0" + launched).digest(),
        hashlib.sha256(config).digest() if config else bytes(32),
    )
