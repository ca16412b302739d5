"""Enclaves of workloads, as the simulated machine measures them."""

import hashlib
import json
from typing import Any

from keyhouse.attestation import Measurements
from keyhouse.base.readable import Readable


class Enclave(Readable, frozen=True):
    """An enclave, as its quotes describe it, and as packages of a manifest do."""

    unique_id: bytes  # MRENCLAVE, 32 bytes: this build and no other
    signer_id: bytes  # MRSIGNER, 32 bytes: the signer
    product_id: int  # ISVPRODID
    security_version: int  # ISVSVN

    @property
    def package(self) -> dict[str, Any]:
        """An entry of ``Packages`` that admits this build alone."""
        return {"UniqueID": self.unique_id.hex()}

    @property
    def package_by_signer(self) -> dict[str, Any]:
        """An entry of ``Packages`` that admits this version of the product, and later ones."""
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
    """Return the enclave ``name``: the same values give the same enclave, and only they.

    ``name`` and ``signer`` stand for a build and a key; their SHA-256 stands for the hashes that
    hardware would measure. ``security_version``, from 1 to 65,535, belongs to the build, too.
    """
    build = f"{name}\0{signer}\0{product_id}\0{security_version}"
    return Enclave(_id("build", build), _id("signer", signer), product_id, security_version)


def _id(kind: str, text: str) -> bytes:
    return hashlib.sha256(f"keyhouse testing {kind}\0{text}".encode()).digest()
