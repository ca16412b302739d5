"""The platform whose sealing key opens a store that lies in a directory."""

from pathlib import Path
from typing import TYPE_CHECKING

from keyhouse.base.errors import Refused

if TYPE_CHECKING:
    from keyhouse.attestation import Platform

__all__ = ["sealing_platform"]


def sealing_platform(name: str, directory: Path) -> "Platform":
    """Open the platform whose folder, if it has one, is in ``directory`` or above its archive."""
    from keyhouse.attestation import open_platform

    archived = directory.parent.name == "archive"
    home = directory.parent.parent if archived else directory
    if name == "simulation" and not (home / "simulation" / "machine.json").exists():
        # Opened all the same, it would be made: another machine, whose key opens nothing.
        raise Refused(
            "the directory has no simulated machine, so nothing can be decrypted",
            hint="put the folder simulation/ beside the store, or leave out --platform",
        )
    return open_platform(name, home)
