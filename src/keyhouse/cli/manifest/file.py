"""A manifest file, JSON or YAML, and the bytes that are uploaded for it.

JSON goes up byte for byte. YAML becomes one JSON text first (``json_source.canonical_json``): the
coordinator, fingerprints, signatures and acknowledgements know nothing but those bytes.

Of one in the current folder a shell completes names; nothing asks a network for that.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from keyhouse.base.errors import InvalidError, KeyhouseError, RefusedError
from keyhouse.base.named_files import read_file
from keyhouse.base.printable import printable
from keyhouse.cli.output.files import write_output
from keyhouse.cli.parser import Argument, Option
from keyhouse.wire.json_parser import read_json

if TYPE_CHECKING:
    from keyhouse.cli.output.source_text import SourceText
    from keyhouse.manifest.source.yaml_text import YamlRead


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
    if file.stat().st_size > _LARGEST:
        return []
    tree = read_json(read_manifest(str(file)))
    fields = tree.items() if isinstance(tree, dict) else ()
    found = [value for name, value in fields if name.lower() == section.lower()]
    return [name for each in found if isinstance(each, dict) for name in each]


_FORMATS: Final[dict[str, Literal["json", "yaml"]]] = {
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}


FileArgument = Annotated[
    Path, Argument(metavar="FILE", help="manifest file, or - for standard input")
]
SourceArgument = Annotated[
    Path, Argument(metavar="FILE", help="manifest file, JSON or YAML, or - for stdin")
]
NewFileOption = Annotated[
    str, Option("--output", "-o", metavar="FILE", help="new file instead of stdout")
]
AsYaml = Annotated[
    bool, Option("--yaml", help="as YAML: what it says, not the bytes that are signed")
]


class ManifestFile(msgspec.Struct, frozen=True):
    """A manifest as its author wrote it. ``name`` is the path as it was typed."""

    name: str
    form: Literal["json", "yaml"]
    written: bytes

    @property
    def raw(self) -> bytes:
        """What is uploaded: the JSON text. Raises ``FileInvalidError`` if there is none."""
        if self.form == "json":
            with self.explained():
                read_json(self.written)
            return self.written
        from keyhouse.manifest.source.json_source import canonical_json

        read = _yaml_of(self.written)
        with self.explained():
            if read.problems:
                raise InvalidError("the manifest", read.problems)
        return canonical_json(read.tree)

    @property
    def source(self) -> "SourceText":
        """What was written, and where its parts stand."""
        from keyhouse.cli.output.source_text import SourceText
        from keyhouse.manifest.source.json_source import json_places

        name = "<standard input>" if self.name == "-" else self.name
        if self.form == "json":
            return SourceText(name, self.written, json_places(self.written))
        return SourceText(name, self.written, _yaml_of(self.written).places)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Show the problems of a manifest that is refused in the block where they stand."""
        try:
            yield
        except RefusedError as refusal:
            from keyhouse.cli.output.source_text import FileInvalidError
            from keyhouse.manifest.source.json_source import json_problem

            syntax = json_problem(self.written, or_yaml=True) if self.form == "json" else None
            problems = [syntax] if syntax else getattr(refusal, "problems", ())
            if not problems:
                raise
            raise FileInvalidError(self.source, problems, refusal) from None


@functools.lru_cache(maxsize=1)
def _yaml_of(written: bytes) -> "YamlRead":
    """Return what a YAML text says: read once, for it may take seconds."""
    from keyhouse.manifest.source.yaml_text import read_yaml

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
        FileInvalidError: it is not JSON or YAML that is accepted; with every problem.
    """
    return open_manifest(path).raw


def write_manifest(raw: bytes, output: str, *, as_yaml: bool) -> None:
    """Write the manifest ``raw`` to the new file ``output``, or to standard output.

    Exactly its bytes, but indented on a terminal, which is not to be copied from. ``as_yaml``: a
    text that means the same. Raises ``FileUnwritableError``.
    """
    on_terminal = not output and sys.stdout.isatty()
    shown = raw
    if as_yaml:
        from keyhouse.manifest.source.yaml_text import write_yaml

        shown = write_yaml(read_json(raw)).encode()
    elif on_terminal:
        shown = msgspec.json.format(raw, indent=2) + b"\n"
    if on_terminal:
        shown = "".join(f"{printable(line)}\n" for line in shown.decode().split("\n")[:-1]).encode()
    write_output(shown, output)
