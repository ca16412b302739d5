"""How commands end and speak: exit codes, errors with hints, one object with ``--json``.

Data go to standard output, talk to standard error. Exit codes: 0 done, 1 refused, 2 usage,
3 unreachable or busy, 4 trust failed (scripts must not try again).
"""

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec
import typer

from keyhouse.base.errors import KeyhouseError, Unavailable
from keyhouse.base.printable import os_reason, printable
from keyhouse.base.process.error_text import error_object, error_text
from keyhouse.cli.output.bundles import bundled
from keyhouse.cli.output.examples import with_example_first
from keyhouse.cli.output.usage import WrongUsage

__all__ = ["AsJson", "exit_code", "read_file", "show_error", "show_json", "show_rows", "speaks"]

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object; errors, too")]

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
TRUST_FAILED: Final = 4

_LARGEST_FILE: Final = 64 * 1024 * 1024


class FileUnreadable(KeyhouseError):
    """A file that was named on the command line cannot be read."""

    code = "file-unreadable"


def exit_code(error: KeyhouseError) -> int:
    """Return the exit code that tells programs what kind of failure it was."""
    from keyhouse.client import TrustFailed

    if isinstance(error, TrustFailed):
        return TRUST_FAILED
    if isinstance(error, WrongUsage):
        return USAGE
    return UNREACHABLE if isinstance(error, Unavailable) else REFUSED


def speaks(command: Callable[..., None]) -> Callable[..., None]:
    """Let ``command`` end with a message and an exit code instead of a traceback.

    Its bundles of options are taken apart for typer.
    """
    command = bundled(command)

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (KeyhouseError, OSError) as error:
            told = error if isinstance(error, KeyhouseError) else _of_a_file(error)
            show_error(told, as_json=bool(kwargs.get("as_json")))
            sys.exit(exit_code(told))

    run.__doc__ = with_example_first(command.__doc__ or "")
    return run


def _of_a_file(error: OSError) -> FileUnreadable:
    """Return what to tell of a path that cannot be used. What has none is about the output."""
    if error.filename is None:
        raise error
    path = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
    return FileUnreadable(f"cannot use {path}: {os_reason(error)}")


def show_error(error: KeyhouseError, *, as_json: bool) -> None:
    """Tell ``error`` on standard error: as lines for people, or as one JSON object."""
    if as_json:
        sys.stderr.write(_json(error_object(error)) + "\n")
    else:
        sys.stderr.write(error_text(error))


def read_file(path: str) -> bytes:
    """Return the content of ``path``; ``-`` is standard input.

    Raises:
        FileUnreadable: it is not there, cannot be read, or is over 64 MiB.
    """
    try:
        if path == "-":
            content = sys.stdin.buffer.read(_LARGEST_FILE + 1)
        else:
            with open(path, "rb") as file:  # noqa: PTH123 the path as the user wrote it
                content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise FileUnreadable(f"cannot read {path}: {os_reason(error)}") from None
    if len(content) > _LARGEST_FILE:
        raise FileUnreadable(f"cannot read {path}: it is larger than {_LARGEST_FILE} bytes")
    return content


def show_rows(rows: Mapping[str, str]) -> None:
    """Print names and values in two columns; the names are bold where colours are wanted."""
    bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    names = [printable(name) for name in rows]
    width = max(map(len, names)) + 1
    for name, value in zip(names, rows.values(), strict=True):
        shown = typer.style(name.ljust(width), bold=True) if bold else name.ljust(width)
        sys.stdout.write(f"{shown} {printable(value)}\n")


def show_json(value: Any) -> None:
    """Print one JSON object on one line."""
    sys.stdout.write(_json(value) + "\n")


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode("utf-8")
    except UnicodeEncodeError:  # names of files need not be text: what is not is escaped
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))
