"""Names that a shell completes, of the manifest in the current folder. Nothing asks a network."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from keyhouse.base.errors import KeyhouseError

_FILES: Final = ("manifest.json", "manifest.yaml", "manifest.yml")
_LARGEST: Final = 1 << 20  # bytes: nobody waits for a larger one to be parsed


def names_of(section: Literal["Secrets", "RecoveryKeys"]) -> Callable[[], list[str]]:
    """Return what gives the names in a section of the manifest; none if it cannot be read."""

    def names() -> list[str]:
        for file in _FILES:
            try:
                if Path(file).is_file():
                    return _names_in(Path(file), section)
            except (KeyhouseError, OSError):  # anyone who presses Tab cannot read an error
                return []
        return []

    return names


def _names_in(file: Path, section: str) -> list[str]:
    from keyhouse.cli.manifest.file import read_manifest
    from keyhouse.wire.json_parser import read_json

    if file.stat().st_size > _LARGEST:
        return []
    tree = read_json(read_manifest(str(file)))
    fields = tree.items() if isinstance(tree, dict) else ()
    found = [value for name, value in fields if name.lower() == section.lower()]
    return [name for each in found if isinstance(each, dict) for name in each]
