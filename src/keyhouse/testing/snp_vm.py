"""Guests of SEV-SNP of workloads, as the simulated machine measures them."""

import hashlib
import json
from typing import Any

import msgspec

from keyhouse.attestation.platforms.find import SIMULATED_AMD
from keyhouse.base.readable import Readable
from keyhouse.wire.snp import SnpIdentity


class SnpVm(Readable, frozen=True):
    """A confidential VM (SEV-SNP), as its reports describe it, and as packages of a manifest do."""

    measurement: bytes  # 48 bytes: what the VM was launched with
    host_data: bytes  # 32 bytes: zeros if the host gives it none

    @property
    def package(self) -> dict[str, Any]:
        """An entry of ``Packages`` that admits this image alone, on the firmware of the machine.

        ``package["SNP"]["MinimumTCB"]`` has the versions of that firmware.
        """
        return {"SNP": msgspec.to_builtins(self.measurements)}

    @property
    def measurements(self) -> SnpIdentity:
        """The identity for the simulated machine; the rest is what that machine has."""
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
    """Return the VM that boots the image ``name``: equal values give equal VMs, and only they.

    The launch measurement stands for ``firmware``, the kernel and initial RAM disk of ``name``, and
    ``command_line``. ``config`` is the document whose SHA-256 is HOST_DATA.
    """
    launched = json.dumps([firmware, name, command_line]).encode()
    return SnpVm(
        hashlib.sha384(b"keyhouse testing launch\0" + launched).digest(),
        hashlib.sha256(config).digest() if config else bytes(32),
    )
