"""Finds known secret bytes in foreign text, whole or in part, however they were encoded."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path

_WINDOW = 9  # bytes: a multiple of three, so that base64 of a window has no padding


def needles(secret: bytes) -> frozenset[bytes]:
    """Return what any nine bytes of ``secret`` in a row look like, in each common encoding.

    Base64 of a longer text has that of a window inside, for one of the windows that begin at three
    neighbouring bytes: so each of the three alignments is found, and each excerpt of 11 bytes.
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
    """Secrets by name, to be looked for."""

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        self._needles = {name: needles(secret) for name, secret in secrets.items()}
        self._beginnings = {
            needle[:_WINDOW] for hidden in self._needles.values() for needle in hidden
        }

    def found_in(self, text: bytes) -> list[str]:
        """Return the names of the secrets of which a part is in ``text``."""
        # One pass for how needles begin: there are thousands, and most texts hold no beginning.
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
        """Return file and secret for each secret of which a part is in a file of ``folders``."""
        return [
            (str(file), name)
            for folder in folders
            for file in sorted(folder.rglob("*"))
            if file.is_file()
            for name in self.found_in(file.read_bytes())
        ]
