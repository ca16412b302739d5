"""Read files that the command line names, and create new files with access for the owner only."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from keyhouse.base.durable_files import create, sync, sync_directory
from keyhouse.base.errors import KeyhouseError, RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.base.user_files import read_file, writing_hint


class FileUnwritableError(KeyhouseError):
    """A file that the command line names cannot be created or written."""

    code = "file-unwritable"


@contextmanager
def reading(path: str, *, is_secret: bool = False) -> Iterator[bytes]:
    """Yield the content of the JSON file ``path``; name file and line in a refusal of the block.

    ``-`` is standard input. With ``is_secret``, the error shows no line of the file. Raises
    ``FileUnreadableError``, and ``FileInvalidError`` in place of a refusal with known problems.
    Other exceptions of the block stay unchanged.
    """
    content = read_file(path)
    try:
        yield content
    except RefusedError as refusal:
        from keyhouse.cli.output.source_text import located

        name = "<standard input>" if path == "-" else path
        raise located(refusal, name, content, is_secret=is_secret) from None


class NewFile:
    """A new file (0600) for the result of a command, created before the work of the command.

    So an unusable path fails early. Raises ``FileUnwritableError`` if ``path`` exists or cannot be
    created. An existing file is never overwritten.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = create(path)
        except FileExistsError:
            raise FileUnwritableError(
                f"{path} already exists; commands do not overwrite files",
                hint="choose another name, or move the existing file",
            ) from None
        except OSError as error:
            raise _unwritable(path, error) from None

    def write(self, content: bytes) -> None:
        """Write ``content`` durably and close the file; after a failure, remove the file.

        Raises ``FileUnwritableError``.
        """
        try:
            with self._file as file:
                file.write(content)
                sync(file)
            sync_directory(os.path.dirname(self.path) or ".")  # noqa: PTH120 the path as typed
        except BaseException as error:  # also a signal to stop
            self.remove()
            if isinstance(error, OSError):
                raise _unwritable(self.path, error) from None
            raise

    def remove(self) -> None:
        """Remove the new file after a failure of the command."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108 the path as the user wrote it


def write_output(content: bytes, path: str = "") -> None:
    """Write ``content`` byte for byte to the new file ``path`` (0600), or to standard output.

    ``""`` and ``-`` mean standard output. On a terminal, the function adds a missing line end.
    Raises ``FileUnwritableError`` if the file exists or cannot be written.
    """
    if path not in {"", "-"}:
        NewFile(path).write(content)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    if sys.stdout.isatty() and not content.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _unwritable(path: str, error: OSError) -> FileUnwritableError:
    return FileUnwritableError(f"cannot write {path}: {os_reason(error)}", hint=writing_hint(error))
