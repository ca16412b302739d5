"""What a watcher knows of logs, in a file: it continues there, and keeps what broke a proof."""

import os
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from keyhouse.base.durable_files import replace_file
from keyhouse.base.errors import RefusedError
from keyhouse.base.named_files import (
    FileUnreadableError,
    read_named_file,
    reading_hint,
    user_folder,
    writing_hint,
)
from keyhouse.base.printable import os_reason
from keyhouse.cli.output.files import FileUnwritableError, NewFile
from keyhouse.client.file_lock import locked
from keyhouse.evidence.history import History
from keyhouse.transparency.tree import Frontier

_LARGEST: Final = 64 << 20  # bytes
_WRITABLE_BY_OTHERS: Final = 0o022


class Watched(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A log as far as it was followed; every leaf of it was verified."""

    root: str  # SHA-256 of the root certificate, hex
    key: str  # verifier key
    note: str  # the newest checkpoint, with its signatures
    frontier: Frontier
    history: History
    instances: tuple[str, ...] = ()  # of the starts; versions before 2026-11-23 did not store them


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    logs: dict[str, Watched]


_VERSION: Final = 1
_DECODER: Final = msgspec.json.Decoder(_Content)


class WatchState:
    """The logs in the file ``path``, by address; if it does not exist, none is known yet."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path

    def read(self) -> dict[str, Watched]:
        """Return what is known. Raises ``RefusedError`` for a damaged file."""
        if not os.path.lexists(self.path):
            return {}
        self._require_own()
        try:
            content = _DECODER.decode(read_named_file(self.path, _LARGEST, FileUnreadableError))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            content = None
        if content is None or content.version != _VERSION:
            raise RefusedError(
                f"{self.path} is damaged, or of another version",
                hint="move it away to follow the logs from their beginning",
            )
        return content.logs

    def _require_own(self) -> None:
        """Raise ``RefusedError`` if other users can write the file: it says what is remembered."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise FileUnreadableError(
                f"cannot read {self.path}: {os_reason(error)}", hint=reading_hint(self.path, error)
            ) from None
        if found.st_uid not in {os.geteuid(), 0} or found.st_mode & _WRITABLE_BY_OTHERS:
            raise RefusedError(
                f"others can write {self.path}, which says what was seen of the logs",
                hint=f"see what is in it, then: chmod 600 {self.path}",
            )

    def keep(self, host: str, watched: Watched) -> None:
        """Replace what is known of the log at ``host``. Raises ``FileUnwritableError``."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self.path):
                content = _Content(_VERSION, {**self.read(), host: watched})
                replace_file(self.path, msgspec.json.encode(content) + b"\n", alone=True)
        except OSError as error:
            raise FileUnwritableError(
                f"cannot write {self.path}: {os_reason(error)}", hint=writing_hint(error)
            ) from None

    def keep_broken(
        self, host: str, problem: str, known: Watched | None, parts: Mapping[str, bytes]
    ) -> Path:
        """Keep what broke a proof in a new file beside this one; return its path.

        It has what was ``known``, and the ``parts`` of the log as they were served.
        """
        found = {
            "host": host,
            "problem": problem,
            "known": known,
            "served": {path: b64encode(raw).decode("ascii") for path, raw in parts.items()},
        }
        number = 1
        while os.path.lexists(path := self.path.with_name(f"{self.path.name}.broken-{number}")):
            number += 1
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        NewFile(str(path)).write(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
        return path


def default_state(memory: Path | None) -> Path | None:
    """Return the file beside ``memory``, or in the user's directory for state.

    None: there is no such directory.
    """
    folder = user_folder("XDG_STATE_HOME", ".local/state") if memory is None else memory.parent
    return None if folder is None else folder / "watched-logs.json"
