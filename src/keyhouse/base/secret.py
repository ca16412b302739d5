"""Bytes that must not be shown."""

import hmac
from typing import NoReturn


class Secret:
    """Bytes that must not be shown: private keys, symmetric keys, shares, what users upload.

    ``reveal()`` is the only way out, so each exit can be found by searching for it. Printing,
    hashing and pickling show or allow nothing; JSON and MessagePack encoders fail on it unless
    they are the journal's. Python cannot wipe memory, and neither does this class (SECURITY.md).
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: bytes) -> None:
        # ``bytes`` of a number is so many zeros.
        self._value = value if type(value) is bytes else bytes(memoryview(value))

    def __repr__(self) -> str:
        return f"<Secret of {len(self._value)} bytes>"

    def __len__(self) -> int:
        return len(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled")

    def reveal(self) -> bytes:
        """Return the bytes. The caller must not log, echo or store them in the clear."""
        return self._value
