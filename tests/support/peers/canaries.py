"""Finds known secret bytes in any text, complete or in part, in common encodings."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path

_WINDOW = 9  # bytes: a multiple of three, so that base64 of a window has no padding


def needles(secret: bytes) -> frozenset[bytes]:
    """Return all windows of nine bytes of ``secret``, in each common encoding.

    Base64 of a longer text contains base64 of a window that begins at a multiple of three bytes.
    Of three neighbouring windows, one begins there. So each alignment is found, and each excerpt
    of 11 bytes.
    """
    assert len(secret) >= _WINDOW
    found = set()
    for start in range(len(secret) - _WINDOW + 1):
        window = secret[start : start + _WINDOW]
        found |= {
            window,
            window.hex().encode(),
            window.hex().upper().encode(),
            b64encode(window),
            urlsafe_b64encode(window),
            ", ".join(map(str, window)).encode(),
            ",".join(map(str, window)).encode(),
            repr(window)[2:-1].encode(),
        }
    return frozenset(found)


class Canaries:
    """Searches texts for secrets, which have names."""

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        self._needles = {name: needles(secret) for name, secret in secrets.items()}
        self._beginnings = {
            needle[:_WINDOW] for hidden in self._needles.values() for needle in hidden
        }

    def found_in(self, text: bytes) -> list[str]:
        """Return the names of the secrets with a part in ``text``."""
        # A single pass searches for the beginnings of needles: there are thousands of needles, and
        # most texts contain no beginning.
        begun = {
            part
            for start in range(len(text) - _WINDOW + 1)
            if (part := text[start : start + _WINDOW]) in self._beginnings
        }
        return [
            name
            for name, hidden in self._needles.items()
            if any(needle[:_WINDOW] in begun and needle in text for needle in hidden)
        ]

    def found_in_files(self, folders: Iterable[Path]) -> list[tuple[str, str]]:
        """Return a pair of file and secret for each secret with a part in a file."""
        return [
            (str(file), name)
            for folder in folders
            for file in sorted(folder.rglob("*"))
            if file.is_file()
            for name in self.found_in(file.read_bytes())
        ]
