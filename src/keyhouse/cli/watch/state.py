"""The file with the watcher's known state of logs, and files with evidence of broken logs."""

import os
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from keyhouse.base.durable_files import replace_file
from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.base.user_files import (
    FileUnreadableError,
    read_named_file,
    reading_hint,
    user_folder,
    writing_hint,
)
from keyhouse.cli.output.files import FileUnwritableError, NewFile
from keyhouse.client.file_lock import locked
from keyhouse.evidence.history import History
from keyhouse.transparency.tree import Frontier

_LARGEST: Final = 64 << 20  # bytes, chosen: a state for many logs has less than one million
_WRITABLE_BY_OTHERS: Final = 0o022  # mode bits: group and others


class KnownLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of a log after the last poll, in which every leaf was verified."""

    root: str  # SHA-256 of the root certificate, hex
    key: str  # verifier key
    note: str  # the newest checkpoint, with its signatures
    frontier: Frontier
    history: History
    instances: tuple[
        str, ...
    ] = ()  # instances that started; versions before 2026-11-23 did not store them


class _WatchedLogs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    logs: dict[str, KnownLog]


_VERSION: Final = 1  # the present format of the file
_DECODER: Final = msgspec.json.Decoder(_WatchedLogs)


class WatchState:
    """The file ``path`` with the known state of each log. A missing file means no known log."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path

    def read(self) -> dict[str, KnownLog]:
        """Return the known state of each log by the coordinator's address.

        Raises ``RefusedError`` for a damaged file, and for a file that other users can write.
        """
        if not os.path.lexists(self.path):
            return {}
        self._require_own()
        try:
            content = _DECODER.decode(read_named_file(self.path, _LARGEST, FileUnreadableError))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            content = None
        if content is None or content.version != _VERSION:
            raise RefusedError(
                f"{self.path} is damaged, or has a version other than {_VERSION}",
                hint="move the file away; then the command follows the logs from their start",
            )
        return content.logs

    def _require_own(self) -> None:
        """Raise ``RefusedError`` if other users can write the file: they could hide changes."""
        try:
            status = self.path.stat()
        except OSError as error:
            raise FileUnreadableError(
                f"cannot read {self.path}: {os_reason(error)}", hint=reading_hint(self.path, error)
            ) from None
        if status.st_uid not in {os.geteuid(), 0} or status.st_mode & _WRITABLE_BY_OTHERS:
            raise RefusedError(
                f"other users can write {self.path}, so they can change the state of the logs",
                hint=f"check the contents of the file, then: chmod 600 {self.path}",
            )

    def store(self, host: str, watched: KnownLog) -> None:
        """Replace the known state of the log at the address ``host`` by ``watched``.

        Raises ``FileUnwritableError``.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self.path):
                content = _WatchedLogs(_VERSION, {**self.read(), host: watched})
                replace_file(self.path, msgspec.json.encode(content) + b"\n", alone=True)
        except OSError as error:
            raise FileUnwritableError(
                f"cannot write {self.path}: {os_reason(error)}", hint=writing_hint(error)
            ) from None

    def store_broken(
        self, host: str, problem: str, known: KnownLog | None, parts: Mapping[str, bytes]
    ) -> Path:
        """Store evidence of a broken log at the address ``host`` in a new file; return its path.

        The file contains the text ``problem``, the ``known`` state before, and ``parts``, the
        received files of the log byte for byte.
        """
        content = {
            "host": host,
            "problem": problem,
            "known": known,
            "served": {path: b64encode(raw).decode("ascii") for path, raw in parts.items()},
        }
        number = 1
        while os.path.lexists(path := self.path.with_name(f"{self.path.name}.broken-{number}")):
            number += 1
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        NewFile(str(path)).write(
            msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
        )
        return path


def default_state(memory: Path | None) -> Path | None:
    """Return the usual path of the file with the known state.

    The file is in the folder of the file ``memory``; with None, in the user's folder for state.
    None as the result means that the user has no such folder.
    """
    folder = user_folder("XDG_STATE_HOME", ".local/state") if memory is None else memory.parent
    return None if folder is None else folder / "watched-logs.json"
