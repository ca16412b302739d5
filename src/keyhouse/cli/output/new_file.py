"""New files that only their owner can read; one that is there already is never touched."""

import os
from contextlib import suppress

from keyhouse.base.durable_files import create, sync, sync_directory
from keyhouse.base.errors import KeyhouseError
from keyhouse.base.printable import os_reason

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
            self._file = create(path)
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
            with self._file as file:
                file.write(content)
                sync(file)
            sync_directory(os.path.dirname(self.path) or ".")  # noqa: PTH120 the path as the user wrote it
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def give_up(self) -> None:
        """Remove the file, which nothing was written to."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108 the path as the user wrote it


def _unwritable(path: str, error: OSError) -> FileUnwritable:
    return FileUnwritable(f"cannot write {path}: {os_reason(error)}")
