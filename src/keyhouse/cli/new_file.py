"""New files that only their owner can read; one that is there already is never touched."""

import os
from contextlib import suppress

from keyhouse.base.errors import KeyhouseError
from keyhouse.cli.os_reason import os_reason

__all__ = ["FileUnwritable", "NewFile"]


class FileUnwritable(KeyhouseError):
    """A file that was named on the command line cannot be made or written."""

    code = "file-unwritable"


class NewFile:
    """A file that did not exist, made now (0600), so that what comes later has a place.

    Raises ``FileUnwritable`` if there is something at ``path``, or nothing can be made there.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise FileUnwritable(
                f"{path} is there already, and is not overwritten",
                hint="name another file, or move that one away",
            ) from None
        except OSError as error:
            raise _unwritable(path, error) from None

    def write(self, content: bytes) -> None:
        """Make the file hold ``content``, durably, and close it. Raises ``FileUnwritable``."""
        try:
            with os.fdopen(self._handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            folder = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY | os.O_DIRECTORY)  # noqa: PTH120 the path as the user wrote it
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def give_up(self) -> None:
        """Remove the file, which nothing was written to."""
        with suppress(OSError):
            os.close(self._handle)
        with suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108 the path as the user wrote it


def _unwritable(path: str, error: OSError) -> FileUnwritable:
    return FileUnwritable(f"cannot write {path}: {os_reason(error)}")
