"""A manifest file, JSON or YAML, and the uploaded bytes for it.

JSON is uploaded byte for byte. YAML is first converted into a JSON text
(``json_source.canonical_json``). The coordinator, fingerprints, signatures and acknowledgements use
only the uploaded bytes.

A shell completes names from a manifest in the current folder, without a network.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from keyhouse.base.errors import InvalidError, KeyhouseError, RefusedError
from keyhouse.base.printable import printable
from keyhouse.base.user_files import read_file
from keyhouse.cli.output.files import write_output
from keyhouse.cli.parser import Argument, Option
from keyhouse.wire.json_parser import read_json

if TYPE_CHECKING:
    from keyhouse.cli.output.source_text import SourceText
    from keyhouse.manifest.source.yaml_text import YamlRead


_FILES: Final = ("manifest.json", "manifest.yaml", "manifest.yml")
_LARGEST: Final = 1 << 20  # bytes; the parse of a larger file would delay the completion


def names_of(section: Literal["Secrets", "RecoveryKeys"]) -> Callable[[], list[str]]:
    """Return a function that returns the names in ``section`` of a manifest, for a shell.

    The manifest is in the current folder. Without a readable manifest, there are no names.
    """

    def names() -> list[str]:
        for file in _FILES:
            try:
                if Path(file).is_file():
                    return _names_in(Path(file), section)
            except (KeyhouseError, OSError):  # a shell shows no error when the user presses Tab
                return []
        return []

    return names


def _names_in(file: Path, section: str) -> list[str]:
    if file.stat().st_size > _LARGEST:
        return []
    tree = read_json(read_manifest(str(file)))
    fields = tree.items() if isinstance(tree, dict) else ()
    sections = [value for name, value in fields if name.lower() == section.lower()]
    return [name for each in sections if isinstance(each, dict) for name in each]


_FORMATS: Final[dict[str, Literal["json", "yaml"]]] = {
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}


FileArgument = Annotated[
    Path, Argument(metavar="FILE", help="manifest file, JSON or YAML; - for standard input")
]
SourceArgument = Annotated[
    Path, Argument(metavar="FILE", help="manifest file, JSON or YAML; - for standard input")
]
NewFileOption = Annotated[
    str, Option("--output", "-o", metavar="FILE", help="new file instead of standard output")
]
AsYaml = Annotated[bool, Option("--yaml", help="print YAML without comments, not the signed bytes")]


class ManifestFile(msgspec.Struct, frozen=True):
    """A manifest file, as its author wrote it.

    ``name`` is the path from the command line, ``form`` the format, and ``written`` the content.
    """

    name: str
    form: Literal["json", "yaml"]
    written: bytes

    @property
    def raw(self) -> bytes:
        """The JSON text to upload. Raises ``FileInvalidError`` for an invalid file."""
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
        """The text of the manifest file, with the positions of its fields for error messages."""
        from keyhouse.cli.output.source_text import SourceText
        from keyhouse.manifest.source.json_source import json_places

        name = "<standard input>" if self.name == "-" else self.name
        if self.form == "json":
            return SourceText(name, self.written, json_places(self.written))
        return SourceText(name, self.written, _yaml_of(self.written).places)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Add line and column of this file to the problems of a refusal that the block raises.

        Raises ``FileInvalidError`` in place of such a refusal. A refusal without a list of problems
        stays unchanged.
        """
        try:
            yield
        except RefusedError as refused:
            refusal = (self._text_error() or refused) if _is_about_rights(refused) else refused
            from keyhouse.cli.output.source_text import FileInvalidError
            from keyhouse.manifest.source.json_source import json_problem

            syntax = json_problem(self.written, or_yaml=True) if self.form == "json" else None
            problems = [syntax] if syntax else getattr(refusal, "problems", ())
            if not problems:
                raise
            raise FileInvalidError(self.source, problems, refusal) from None

    def _text_error(self) -> InvalidError | None:
        """Return the error about a field of this manifest or package update; None without an error.

        The coordinator checks the user's permissions before the fields, so its refusal may hide
        this error. A misspelt field can even change the demanded permission.
        """
        from keyhouse.manifest import decode
        from keyhouse.manifest.check import read_package_update

        try:
            update = read_package_update(self.raw)
            if update is None:
                decode(self.raw)
        except InvalidError as invalid:
            return invalid
        problems = update.problems if update is not None else ()
        return InvalidError("the package update", problems) if problems else None


def _is_about_rights(refusal: RefusedError) -> bool:
    from keyhouse.client import CallRefusedError

    return isinstance(refusal, CallRefusedError) and refusal.http_status == HTTPStatus.FORBIDDEN


@functools.lru_cache(maxsize=1)
def _yaml_of(written: bytes) -> "YamlRead":
    """Parse the YAML text ``written``. A second call with the same text returns the same result.

    The parse of a large text takes seconds.
    """
    from keyhouse.manifest.source.yaml_text import read_yaml

    return read_yaml(written)


def open_manifest(path: str) -> ManifestFile:
    """Read the manifest file at ``path``; ``-`` is standard input.

    The suffix selects the format: ``.json``, ``.yaml`` or ``.yml``. Without such a suffix, a text
    is JSON if it begins with ``{`` or is empty, and otherwise YAML. Raises ``FileUnreadableError``.
    """
    written = read_file(path)
    first = written.lstrip(b" \t\r\n\xef\xbb\xbf")[:1]
    guessed: Literal["json", "yaml"] = "json" if first in {b"", b"{"} else "yaml"
    return ManifestFile(path, _FORMATS.get(PurePath(path).suffix.lower(), guessed), written)


def read_manifest(path: str) -> bytes:
    """Return the bytes to upload for the manifest file at ``path``; ``-`` is standard input.

    Raises:
        FileUnreadableError: the file cannot be read.
        FileInvalidError: the file is not valid JSON or YAML; the error has every problem.
    """
    return open_manifest(path).raw


def write_manifest(raw: bytes, output: str, *, as_yaml: bool) -> None:
    """Write the manifest ``raw`` (JSON) to the new file ``output``, or for "" to standard output.

    A file or pipe gets exactly the bytes of ``raw``. A terminal gets an indented and escaped text,
    so a user must not copy the manifest from a terminal. With ``as_yaml``, the text is YAML with
    the same meaning. Raises ``FileUnwritableError``.
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
