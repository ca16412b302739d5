"""The interface of a platform: quotes, a sealing key, and the coordinator's own measurements."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import msgspec

from keyhouse.base.secret import Secret


class SealPolicy(StrEnum):
    """The set of enclaves that can derive a sealing key (manifest: ``Config.SealMode``)."""

    PRODUCT_KEY = "ProductKey"
    UNIQUE_KEY = "UniqueKey"


class Measurements(msgspec.Struct, frozen=True):
    """The identity of the coordinator in its quotes."""

    unique_id: bytes  # MRENCLAVE, 32 bytes
    signer_id: bytes  # MRSIGNER, 32 bytes
    product_id: int  # ISVPRODID
    security_version: int  # ISVSVN


class Platform(Protocol):
    """A trusted execution environment. Calls may block, so they run off the event loop.

    A platform that cannot answer raises ``UnavailableError`` (try again) or ``BrokenError``. It
    never returns an empty or invented answer.
    """

    @property
    def kind(self) -> str:
        """The name of the platform: ``gramine``, ``tdx``, ``snp`` or ``simulation``.

        The first record of a journal fixes the name.
        """
        ...

    @property
    def root_ca(self) -> bytes:
        """The DER root certificate for quotes of SGX and TDX."""
        ...

    @property
    def amd_roots(self) -> Mapping[str, bytes]:
        """The DER root certificates for reports of SEV-SNP, by line of processors."""
        ...

    @property
    def measurements(self) -> Measurements:
        """The identity of this process in its quotes."""
        ...

    @property
    def is_library_os(self) -> bool:
        """True if a library OS is between this process and its host, as in an enclave.

        Then no process outside sees its locks on files or can trace it, and its memory is never
        swapped out in the clear.
        """
        ...

    def quote(self, report_data: bytes) -> bytes:
        """Return a raw quote over exactly 64 bytes of ``report_data``."""
        ...

    def sealing_key(self, policy: str) -> Secret:
        """Return the 32-byte key that only enclaves of ``policy`` on this machine can derive.

        ``policy``: the word of a ``SealPolicy``, as the journal stores this word.
        """
        ...
