"""The line of a root as a client remembers it, to detect a replaced line."""

from typing import TYPE_CHECKING, Final

import msgspec

from keyhouse.client.errors import TrustError

if TYPE_CHECKING:
    from keyhouse.transparency.line import RootLine

_HINT: Final = (
    "send nothing, and find out whether an older copy of the state was restored, or another"
    " deployment answers"
)


class SeenLine(msgspec.Struct, frozen=True):
    """A remembered line. ``number`` is 0 after the user has set the first manifest of a root.

    Then the memory has only this manifest, because the coordinator has not served a line yet.
    """

    first: str  # fingerprint of the first manifest, hex
    number: int = 0  # number of entries
    last: str = ""  # SHA-256 of the last entry, hex
    accepted: int = 0  # entries whose manifests the user has accepted


def require_continued_line(line: "RootLine", seen: SeenLine) -> None:
    """Raise ``TrustError`` unless ``line`` begins with all entries of ``seen``."""
    if line.first.manifest != seen.first:
        raise TrustError(
            f"the deployment began with the manifest {line.first.manifest}, but the remembered"
            f" first manifest is {seen.first}",
            hint=_HINT,
        )
    if len(line.raw) < seen.number:
        raise TrustError(
            f"rollback: the line of the root has {len(line.raw)} entries, but had {seen.number}"
            " entries before",
            hint=_HINT,
        )
    if seen.number and not line.continues(seen.number, bytes.fromhex(seen.last)):
        raise TrustError(
            f"fork: the line of the root does not begin with the {seen.number} remembered entries",
            hint=_HINT,
        )


def extended_line(line: "RootLine", seen: SeenLine | None) -> SeenLine:
    """Return the line to remember after ``line``; ``seen`` is the line in the memory, if any.

    Another process may have remembered a longer line meanwhile. Then the result is ``seen``.
    """
    if seen is not None and seen.number >= len(line.raw):
        return seen
    accepted = 0 if seen is None else seen.accepted
    return SeenLine(line.first.manifest, len(line.raw), line.last_hash.hex(), accepted)
