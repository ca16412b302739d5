"""What a workload asks for when it joins, and what it is given."""

from collections.abc import Mapping

import msgspec

__all__ = ["ActivationRequest", "Parameters"]


class ActivationRequest(msgspec.Struct, frozen=True):
    """The request of one workload, as it came: nothing of it is checked yet.

    Source: workload API, "Definition".
    """

    quote: bytes  # raw, or with the 16-byte header; empty: none
    csr: bytes  # PKCS #10, DER
    marble_type: str
    uuid: str


class Parameters(msgspec.Struct, frozen=True):
    """What a workload is started with. All of it is as secret as the secrets in it."""

    files: Mapping[str, bytes]  # by path
    env: Mapping[str, bytes]  # by name
    argv: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Parameters of {len(self.files)} files and {len(self.env)} variables>"
