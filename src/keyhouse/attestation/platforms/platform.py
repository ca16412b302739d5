"""What a platform gives the coordinator: quotes, a sealing key, its own measurements."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import msgspec

from keyhouse.base.secret import Secret


class SealPolicy(StrEnum):
    """Which enclaves can derive a sealing key again (manifest: ``Config.SealMode``)."""

    PRODUCT_KEY = "ProductKey"
    UNIQUE_KEY = "UniqueKey"


class Measurements(msgspec.Struct, frozen=True):
    """Who the coordinator itself is, as its quotes say."""

    unique_id: bytes  # MRENCLAVE, 32 bytes
    signer_id: bytes  # MRSIGNER, 32 bytes
    product_id: int  # ISVPRODID
    security_version: int  # ISVSVN


class Platform(Protocol):
    """A trusted execution environment. Calls may block; they are made off the event loop.

    A platform that cannot do what it is asked raises ``UnavailableError`` (try again) or
    ``BrokenError``; it never returns an empty or made-up answer.
    """

    @property
    def kind(self) -> str:
        """``gramine``, ``tdx``, ``snp`` or ``simulation``: fixed forever by the first record."""
        ...

    @property
    def root_ca(self) -> bytes:
        """The DER certificate under which quotes of SGX and TDX verify."""
        ...

    @property
    def amd_roots(self) -> Mapping[str, bytes]:
        """The DER certificates under which reports of SEV-SNP verify, by line of processors."""
        ...

    @property
    def measurements(self) -> Measurements:
        """What the quotes of this process say about it."""
        ...

    @property
    def is_library_os(self) -> bool:
        """Whether a library OS is between this process and its host, as in an enclave.

        Then no process outside sees its locks on files, none can trace it, and nothing of its
        memory is swapped out in the clear.
        """
        ...

    def quote(self, report_data: bytes) -> bytes:
        """Return a raw quote over exactly 64 bytes of ``report_data``."""
        ...

    def sealing_key(self, policy: SealPolicy) -> Secret:
        """Return the 32-byte key that only enclaves of ``policy`` on this machine can derive."""
        ...
