"""Confidential VMs of workloads, as the simulated machine measures them."""

import hashlib
import json
from typing import Any, Self

import msgspec

from keyhouse.base.readable import Readable
from keyhouse.wire.tdx import TdxIdentity

_REGISTER = 48  # bytes: SHA-384
_Registers = tuple[bytes, bytes, bytes, bytes]


class ConfidentialVm(Readable, frozen=True):
    """A confidential VM (TDX), as its quotes describe it, and as packages of a manifest do."""

    mrtd: bytes  # 48 bytes: the firmware
    rtmrs: _Registers  # 48 bytes each: what the boot measured, and the VM itself
    config_id: bytes  # MRCONFIGID, 48 bytes: zeros if the host gives it none

    def extended(self, register: int, event: bytes) -> Self:
        """Return the VM after ``event`` was measured into RTMR ``register``, 0 to 3."""
        rtmrs = list(self.rtmrs)
        rtmrs[register] = _extended(rtmrs[register], event)
        return msgspec.structs.replace(self, rtmrs=(*rtmrs,))

    @property
    def package(self) -> dict[str, Any]:
        """An entry of ``Packages`` that admits this image alone, booted as it was."""
        return {"TDX": msgspec.to_builtins(self.measurements)}

    @property
    def measurements(self) -> TdxIdentity:
        """The identity for the simulated machine; the rest is what that machine has."""
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
    """Return the VM that boots the image ``name``: equal values give equal VMs, and only they.

    The texts stand for what a boot measures: ``firmware`` (MRTD, RTMR0), the kernel of ``name``
    (RTMR1), ``command_line`` and the initial RAM disk of ``name`` (RTMR2). RTMR3 is zeros until
    ``extended``. ``config`` is the document whose SHA-384 is MRCONFIGID.
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
    """Return the register after an event. Source: Intel TDX module, "RTMR extend"."""
    return _digest(register + _digest(event))


def _digest(content: bytes) -> bytes:
    return hashlib.sha384(content).digest()
