"""A container for bytes that must never be displayed."""

import hmac
from typing import NoReturn


class Secret:
    """Bytes that must never be displayed: private keys, symmetric keys, shares, uploaded secrets.

    Only ``reveal()`` returns the bytes. So a search of the source for ``reveal`` finds each place
    where bytes leave this class. ``repr`` prints the length. Hashing and pickling fail. JSON and
    MessagePack encoders fail, except the encoder of the journal, whose records are encrypted.
    Python cannot wipe memory: the bytes stay until the memory is used again (SECURITY.md).
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: bytes) -> None:
        # ``bytes(5)`` returns five zeros. ``memoryview`` refuses a number.
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
        """Return the bytes. The caller must not log, echo or store the bytes in plain text."""
        return self._value
