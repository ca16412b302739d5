"""Where recovery secrets are written: made before the call that returns them, as they come once."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import click
import msgspec

from keyhouse.base.printable import printable
from keyhouse.cli.output.files import FileUnwritableError, NewFile
from keyhouse.cli.parser import Option
from keyhouse.manifest import fingerprint

RecoveryOption = Annotated[
    str,
    Option(
        "--recoverydata",
        "-r",
        metavar="FILE",
        help="new file for recovery secrets, if there are any; - for standard output"
        " (default: recovery-secrets-FINGERPRINT.json)",
    ),
]


class RecoveryPlace:
    """Keeps the recovery secrets of one call in ``file``, or on standard output."""

    def __init__(self, file: NewFile | None) -> None:
        self._file = file
        self._kept = False

    def keep(self, secrets: Mapping[str, bytes]) -> None:
        """Write ``secrets`` durably, before anything else is printed.

        If their file cannot be written after all they go to standard output, which is better than
        nowhere: they are encrypted for the holders of the keys. Raises ``FileUnwritableError``
        then.
        """
        if not secrets:
            return
        self._kept = True
        content = msgspec.json.encode({"RecoverySecrets": secrets}) + b"\n"
        if self._file is None:
            _print(content)
            return
        try:
            self._file.write(content)
        except FileUnwritableError as error:
            _print(content)
            raise FileUnwritableError(
                f"{error.message}; the recovery secrets are on standard output instead",
                hint="save them; keyhouse recover secrets prints them again",
            ) from None
        where = printable(self._file.path)
        click.echo(f"recovery secrets: {where}; give each to the holder of its key", err=True)

    @property
    def path(self) -> str | None:
        """The file that holds recovery secrets now, if there were any for a file."""
        return self._file.path if self._file is not None and self._kept else None

    def leave(self) -> None:
        """Remove the file if nothing came for it."""
        if self._file is not None and not self._kept:
            self._file.give_up()


@contextmanager
def recovery_place(option: str, manifest: bytes) -> Iterator[RecoveryPlace]:
    """Take a place for recovery secrets, before the call that may give them.

    Raises ``FileUnwritableError`` if a file of that name is there, or cannot be made.
    """
    path = option or f"recovery-secrets-{fingerprint(manifest)[:12]}.json"
    place = RecoveryPlace(None if path == "-" else _taken(path))
    try:
        yield place
    finally:
        place.leave()


def _taken(path: str) -> NewFile:
    try:
        return NewFile(path)
    except FileUnwritableError as error:
        hint = error.hint or "name a place where recovery secrets can be kept: --recoverydata FILE"
        raise FileUnwritableError(error.message, hint=hint) from None


def _print(content: bytes) -> None:
    sys.stdout.write(content.decode("ascii"))
    sys.stdout.flush()
