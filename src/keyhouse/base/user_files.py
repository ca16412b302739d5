"""Files that a user names: read them completely, or explain the failure with a hint."""

import os
import sys
from pathlib import Path
from typing import Final

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.printable import os_reason

# Names of a directory to compare with a mistyped name: bounds the time in a large directory.
_COMPARED: Final = 1000
# Similarity from 0 to 1 for a suggestion. At 0.6, the default of difflib, an equal ending such as
# ".json" is enough.
_CLOSE: Final = 0.8
_LARGEST_FILE: Final = 64 * 1024 * 1024  # bytes


class FileUnreadableError(KeyhouseError):
    """A file from the command line, or standard input, cannot be read."""

    code = "file-unreadable"


def user_folder(variable: str, below_home: str) -> Path | None:
    """Return the user's folder for files of Keyhouse, such as the known deployments.

    This is ``keyhouse`` in the directory that the environment ``variable`` names. Without such a
    variable, this is ``keyhouse`` in the directory ``below_home`` of ``HOME``. None if neither has
    an absolute path.
    """
    for name, below in ((variable, ""), ("HOME", below_home)):
        value = os.environ.get(name, "")
        if value.startswith("/"):
            return Path(value) / below / "keyhouse"
    return None


def read_named_file(path: str | Path, most: int, refused: type[KeyhouseError]) -> bytes:
    """Return the content of ``path``, at most ``most`` bytes.

    Raises an error of the class ``refused``, which names the file, for an unreadable file. Also
    raises for a larger file, because a part of a file could have a different meaning.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 the path as the user wrote it
            content = file.read(most + 1)
    except OSError as error:
        raise refused(
            f"cannot read {path}: {os_reason(error)}", hint=reading_hint(path, error)
        ) from None
    if len(content) > most:
        raise refused(
            f"cannot read {path}: the file is larger than {most} bytes",
            hint="check that this is the intended file",
        )
    return content


def read_file(path: str, most: int = _LARGEST_FILE) -> bytes:
    """Return the content of ``path``; ``-`` is standard input.

    Raises ``FileUnreadableError`` if the file is unreadable or over ``most`` bytes.
    """
    if path != "-":
        return read_named_file(path, most, FileUnreadableError)
    try:
        content = sys.stdin.buffer.read(most + 1)
    except OSError as error:
        raise FileUnreadableError(
            f"cannot read standard input: {os_reason(error)}", hint="pass the path of a file"
        ) from None
    if len(content) > most:
        raise FileUnreadableError(
            f"standard input is larger than {most} bytes",
            hint="check that standard input has the content of the intended file",
        )
    return content


def reading_hint(path: str | Path, error: OSError) -> str:
    """Return a hint for an unreadable ``path``. May suggest a file with a similar name."""
    if isinstance(error, FileNotFoundError):
        return _meant(path)
    if isinstance(error, IsADirectoryError):
        return "name a file, not a directory"
    if isinstance(error, PermissionError):
        return "check who may read the file, and who may enter its directory"
    return "check the path"


def writing_hint(error: OSError) -> str:
    """Return a hint for a file that cannot be created or written."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "create the directory of the file first, or name another file"
    if isinstance(error, PermissionError):
        return "check who may write to the file, and to its directory"
    return "check the path, and the disk"


def _meant(path: str | Path) -> str:
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for entry, _ in zip(entries, range(_COMPARED), strict=False)]
    except OSError:
        return f"check the path: there is no directory {folder}"
    close = get_close_matches(name, names, n=1, cutoff=_CLOSE)
    return f"did you mean {os.path.join(folder, close[0])}?" if close else "check the path"  # noqa: PTH118 the path as the user wrote it
