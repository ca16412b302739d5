"""The verified evidence file, and the files that the auditor trusts: names and hashes."""

import hashlib
from typing import Self

import msgspec


class GivenFile(msgspec.Struct, frozen=True):
    """A file that the auditor gave to the command, with the hash of its content.

    ``role`` is the option or the argument that named the file.
    """

    role: str
    name: str
    sha256: str

    @classmethod
    def of(cls, role: str, name: str, content: bytes) -> Self:
        """Return the file ``name`` with the hash of ``content``."""
        return cls(role, name, hashlib.sha256(content).hexdigest())


class Given(msgspec.Struct, frozen=True):
    """The evidence file, the files that the auditor trusts, and earlier logs, oldest first."""

    evidence: GivenFile
    trusted: tuple[GivenFile, ...] = ()
    before: tuple[GivenFile, ...] = ()
