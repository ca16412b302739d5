"""The file for recovery secrets, created before the request.

The coordinator returns recovery secrets once, and later only to users with UpdateManifest. So a
path without write access must fail before the request.
"""

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
        help="new file (0600) for the encrypted recovery secrets, if there are any; - for standard"
        " output (default: recovery-secrets-FINGERPRINT.json, with 12 digits of the"
        " fingerprint)",
    ),
]


class RecoveryPlace:
    """The destination of recovery secrets: ``file``, or standard output if ``file`` is None."""

    def __init__(self, file: NewFile | None) -> None:
        self._file = file
        self._has_secrets = False

    def write(self, secrets: Mapping[str, bytes]) -> None:
        """Write the encrypted recovery ``secrets``, by name of the recovery key, durably.

        If the file becomes unwritable, the method prints the secrets on standard output, so that
        they are not lost. Then the method raises ``FileUnwritableError``. Printing is safe, because
        only the holders can decrypt the secrets.
        """
        if not secrets:
            return
        self._has_secrets = True
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
                hint="save the output; keyhouse recover secrets prints the secrets again",
            ) from None
        where = printable(self._file.path)
        click.echo(f"recovery secrets: {where}; send each to the holder of its key", err=True)

    @property
    def path(self) -> str | None:
        """The path of the file with recovery secrets, or None if the file has no secret."""
        return self._file.path if self._file is not None and self._has_secrets else None

    def remove_unused(self) -> None:
        """Remove the file if no secrets were written into it."""
        if self._file is not None and not self._has_secrets:
            self._file.remove()


@contextmanager
def recovery_place(option: str, manifest: bytes) -> Iterator[RecoveryPlace]:
    """Create the file for recovery secrets, and yield it for a request that may return secrets.

    ``option`` is the value of ``--recoverydata``: a new file, ``-`` for standard output, or "" for
    a file named by the fingerprint of ``manifest``. An unused file is removed after the block.
    Raises ``FileUnwritableError`` if the file exists or cannot be created.
    """
    path = option or f"recovery-secrets-{fingerprint(manifest)[:12]}.json"
    place = RecoveryPlace(None if path == "-" else _create(path))
    try:
        yield place
    finally:
        place.remove_unused()


def _create(path: str) -> NewFile:
    try:
        return NewFile(path)
    except FileUnwritableError as error:
        hint = error.hint or "pass a writable path: --recoverydata FILE"
        raise FileUnwritableError(error.message, hint=hint) from None


def _print(content: bytes) -> None:
    sys.stdout.write(content.decode("ascii"))
    sys.stdout.flush()
