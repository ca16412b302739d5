"""A manifest file, JSON or YAML, and the bytes that are uploaded for it.

JSON goes up byte for byte. YAML becomes one JSON text first (``json_source.canonical_json``): the
coordinator, fingerprints, signatures and acknowledgements know nothing but those bytes.
"""

import functools
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from keyhouse.base.errors import InvalidError
from keyhouse.cli.output.files import read_file
from keyhouse.manifest.source.source_map import SourceMap

if TYPE_CHECKING:
    from keyhouse.manifest.source.yaml_reader import YamlRead

__all__ = ["ManifestFile", "open_manifest", "read_manifest"]

_FORMATS: Final[dict[str, Literal["json", "yaml"]]] = {
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}


class ManifestFile(msgspec.Struct, frozen=True):
    """A manifest as its author wrote it. ``name`` is the path as it was typed."""

    name: str
    form: Literal["json", "yaml"]
    written: bytes

    @property
    def raw(self) -> bytes:
        """What is uploaded: the JSON text. Raises ``InvalidError`` for what YAML of ours is not."""
        if self.form == "json":
            return self.written
        from keyhouse.manifest.source.json_source import canonical_json

        read = _yaml_of(self.written)
        if read.problems:
            raise InvalidError(f"the YAML of {self.name}", read.problems)
        return canonical_json(read.tree)

    @property
    def places(self) -> SourceMap:
        """Where the parts of what was written stand."""
        if self.form == "json":
            from keyhouse.manifest.source.json_source import json_places

            return json_places(self.written)
        return _yaml_of(self.written).places


@functools.lru_cache(maxsize=1)
def _yaml_of(written: bytes) -> "YamlRead":
    """Return what a YAML text says: read once, for it may take seconds."""
    from keyhouse.manifest.source.yaml_reader import read_yaml

    return read_yaml(written)


def open_manifest(path: str) -> ManifestFile:
    """Return the file at ``path``; ``-`` is standard input.

    The name's ending tells what it is: ``.json``, or ``.yaml`` and ``.yml``. With another name it
    is JSON if its first character is ``{``, or if there is none. Raises ``FileUnreadableError``.
    """
    written = read_file(path)
    first = written.lstrip(b" \t\r\n\xef\xbb\xbf")[:1]
    guessed: Literal["json", "yaml"] = "json" if first in {b"", b"{"} else "yaml"
    return ManifestFile(path, _FORMATS.get(PurePath(path).suffix.lower(), guessed), written)


def read_manifest(path: str) -> bytes:
    """Return the bytes that are uploaded for the file at ``path``; ``-`` is standard input.

    Raises:
        FileUnreadableError: it cannot be read.
        InvalidError: it is YAML that is not accepted; with every problem.
    """
    return open_manifest(path).raw
