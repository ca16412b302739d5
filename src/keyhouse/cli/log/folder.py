"""A mirror of a log: files for any web server, with the paths of C2SP tlog-tiles.

The files are ``checkpoint``, ``tile/...``, ``object/<hex>``, ``key`` (the verifier key of the log)
and ``line`` (the line of the root, ``transparency.mirrored_line``). Readers begin with
``checkpoint``, so the writer replaces this file last. During a copy, the file ``size`` has the
number of copied leaves. The checkpoint may state fewer leaves.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Final

from keyhouse.base.durable_files import rename, sync_directory, write_new
from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.base.user_files import writing_hint
from keyhouse.cli.output.files import FileUnwritableError
from keyhouse.client.file_lock import locked
from keyhouse.client.public_log import LogCheckpoint, checkpoint_in
from keyhouse.journal.log_store import Growing
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.mirrored_line import LINE_FILE, MirroredLine, read_mirrored_line
from keyhouse.transparency.tiles import WIDTH, Tile, frontier_of, narrowed

_PUBLIC: Final = 0o644  # readable for web servers


class MirrorFolder:
    """The mirror in the directory ``path``. The first written file creates a missing directory."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of this mirror during the block, so only this process writes files.

        Raises ``FileUnwritableError``.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with locked(self.path / "mirror"):
                yield
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def require_key(self, verifier: str) -> None:
        """Store ``verifier``, the verifier key of the log, in a new mirror.

        Raises ``RefusedError`` for a mirror with a different key, and for a directory with files
        that are not a mirror.
        """
        known = self._read("key")
        if known is None and any(each.name != "mirror.lock" for each in self.path.iterdir()):
            raise RefusedError(
                f"{self.path} is not empty and is not a mirror of a log",
                hint="pass a new directory, or the directory of a mirror",
            )
        if known is not None and known != f"{verifier}\n".encode():
            raise RefusedError(
                f"{self.path} is a mirror of a different log",
                hint="pass the directory of this log's mirror, or a new directory",
            )
        self._write("key", f"{verifier}\n".encode())

    def checkpoint(self, verifier: str) -> LogCheckpoint | None:
        """Return the checkpoint in the mirror, or None for a new mirror.

        Raises ``LogInvalidError`` unless the key ``verifier`` has signed the checkpoint.
        """
        note = self._read("checkpoint")
        return None if note is None else checkpoint_in(note, verifier)

    def growing(self, checkpoint: LogCheckpoint | None) -> Growing:
        """Return the copied part of the log, so that a caller can append leaves to it.

        ``checkpoint`` is the checkpoint in the mirror, or None. Raises ``RefusedError`` for damaged
        files.
        """
        size = self._read("size")
        known = 0 if checkpoint is None else checkpoint.size
        damaged = RefusedError(
            f"the mirror {self.path} is damaged", hint="copy the log into a new directory"
        )
        try:
            frontier = frontier_of(self._tile, known if size is None else int(size))
            log = Growing.at(frontier, self._tile)
        except (LogInvalidError, ValueError):
            raise damaged from None
        if size is None and checkpoint is not None and frontier.root != checkpoint.root:
            raise damaged
        return log

    def put(self, growing: Growing, *, partial: bool) -> None:
        """Write the full tiles of the copied part ``growing`` of the log into the mirror.

        With ``partial``, also write the tiles at the end of the log that are not full.
        """
        complete = []
        for tile in growing.tiles():
            raw = growing.read(tile)
            if raw is not None and (partial or tile.width == WIDTH):
                self._write(f"tile/{tile.path}", raw)
            if tile.width == WIDTH:
                complete.append(tile)
                self._remove_beginnings(tile)
        growing.drop(complete)

    def begin(self, growing: Growing) -> None:
        """Store the copied part ``growing``, so that a later run continues the copy.

        The file ``checkpoint`` does not change, so readers do not see the new leaves yet.
        """
        self.put(growing, partial=True)
        self._write("size", b"%d" % growing.size)

    def publish(self, growing: Growing, note: bytes) -> None:
        """Publish all leaves of ``growing`` to readers; ``note`` is the checkpoint of this size."""
        self.put(growing, partial=True)
        self._write("checkpoint", note)
        (self.path / "size").unlink(missing_ok=True)

    def object(self, name: str) -> bytes | None:
        """Return the object ``name`` of the log, or None if the mirror lacks the object."""
        return self._read(f"object/{name}")

    def put_object(self, name: str, raw: bytes) -> None:
        """Store the object ``raw``. Raises ``LogInvalidError`` unless its hash equals ``name``."""
        if object_name(raw) != name:
            raise LogInvalidError(
                f"the content of the object {name} has the hash {object_name(raw)}: the content"
                " was changed"
            )
        self._write(f"object/{name}", raw)

    def line(self) -> MirroredLine | None:
        """Return the line of the root in the mirror, or None. Raises ``LogInvalidError``."""
        raw = self._read(LINE_FILE)
        return None if raw is None else read_mirrored_line(raw)

    def put_line(self, line: MirroredLine) -> None:
        """Write the line of the root into the mirror, after the objects that the line names."""
        self._write(LINE_FILE, line.encode())

    def _tile(self, tile: Tile) -> bytes:
        raw = self._read(f"tile/{tile.path}")
        if raw is None:  # an unfinished run has completed the tile
            raw = self._read(f"tile/{tile.full.path}")
        if raw is None:
            raise LogInvalidError(f"the mirror lacks the file tile/{tile.path}")
        return narrowed(raw, tile)

    def _remove_beginnings(self, tile: Tile) -> None:
        """Remove the earlier, shorter files of the complete ``tile``: no reader needs them."""
        folder = self.path / f"tile/{tile.path}.p"
        if folder.is_dir():
            try:
                rmtree(folder)
            except OSError as error:
                raise _unwritable(folder, error) from None

    def _read(self, name: str) -> bytes | None:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, name: str, raw: bytes) -> None:
        """Replace the mirror's file ``name`` by ``raw``, durably and atomically for readers."""
        path = self.path / name
        if self._read(name) == raw:
            return
        beside = path.with_name(f"{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.unlink(missing_ok=True)
            write_new(beside, raw)
            os.chmod(beside, _PUBLIC)  # noqa: PTH101 not a link
            rename(beside, path)
            sync_directory(path.parent)
        except OSError as error:
            raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> FileUnwritableError:
    return FileUnwritableError(f"cannot write {path}: {os_reason(error)}", hint=writing_hint(error))
