"""A mirror of a log: files that any web server can serve, as C2SP tlog-tiles spells their paths.

``checkpoint``, ``tile/...``, ``object/<hex>``, ``key``: the verifier key of the log, and ``line``:
the line of the root (``transparency.mirrored_line``). What is not complete yet is named in
``size``; readers go by ``checkpoint``, which is replaced last.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Final

from keyhouse.base.durable_files import rename, sync_directory, write_new
from keyhouse.base.errors import RefusedError
from keyhouse.base.named_files import writing_hint
from keyhouse.base.printable import os_reason
from keyhouse.cli.output.files import FileUnwritableError
from keyhouse.client.file_lock import locked
from keyhouse.client.public_log import LogCheckpoint, checkpoint_in
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.growing import Growing
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.mirrored_line import LINE_FILE, MirroredLine, read_mirrored_line
from keyhouse.transparency.tiles import WIDTH, Tile, frontier_of, narrowed

_PUBLIC: Final = 0o644  # a web server reads them


class MirrorFolder:
    """The mirror in ``path``; a missing one is made with the first file."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of this mirror. Raises ``FileUnwritableError``."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with locked(self.path / "mirror"):
                yield
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def require_key(self, verifier: str) -> None:
        """Require that this is a mirror of the log with this key, or a new one."""
        known = self._read("key")
        if known is None and any(each.name != "mirror.lock" for each in self.path.iterdir()):
            raise RefusedError(f"{self.path} is not empty and not a mirror of a log")
        if known is not None and known != f"{verifier}\n".encode():
            raise RefusedError(
                f"{self.path} is a mirror of another log", hint="name another directory"
            )
        self._write("key", f"{verifier}\n".encode())

    def checkpoint(self, verifier: str) -> LogCheckpoint | None:
        """Return the newest checkpoint; None: there is none yet. Raises ``LogInvalidError``."""
        note = self._read("checkpoint")
        return None if note is None else checkpoint_in(note, verifier)

    def growing(self, checkpoint: LogCheckpoint | None) -> Growing:
        """Return the log as far as it is here. Raises ``RefusedError`` if files are damaged."""
        size = self._read("size")
        known = 0 if checkpoint is None else checkpoint.size
        damaged = RefusedError(
            f"the mirror {self.path} is damaged", hint="mirror into a new directory"
        )
        try:
            frontier = frontier_of(self._tile, known if size is None else int(size))
            found = Growing.at(frontier, self._tile)
        except (LogInvalidError, ValueError):
            raise damaged from None
        if size is None and checkpoint is not None and frontier.root != checkpoint.root:
            raise damaged
        return found

    def put(self, growing: Growing, *, partial: bool) -> None:
        """Write what ``growing`` has: complete tiles, and ``partial`` ones."""
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
        """Keep how far the files are, without a checkpoint that says so."""
        self.put(growing, partial=True)
        self._write("size", b"%d" % growing.size)

    def publish(self, growing: Growing, note: bytes) -> None:
        """Let readers see all of ``growing``, whose checkpoint is ``note``."""
        self.put(growing, partial=True)
        self._write("checkpoint", note)
        (self.path / "size").unlink(missing_ok=True)

    def object(self, name: str) -> bytes | None:
        """Return an object; None: it is not here."""
        return self._read(f"object/{name}")

    def put_object(self, name: str, raw: bytes) -> None:
        """Keep an object. Raises ``LogInvalidError`` if it is another one than its name says."""
        if object_name(raw) != name:
            raise LogInvalidError(f"the object {name} is another one than its name says")
        self._write(f"object/{name}", raw)

    def line(self) -> MirroredLine | None:
        """Return the line of the root; None: no run has copied it. Raises ``LogInvalidError``."""
        raw = self._read(LINE_FILE)
        return None if raw is None else read_mirrored_line(raw)

    def put_line(self, line: MirroredLine) -> None:
        """Keep ``line``, whose objects are here."""
        self._write(LINE_FILE, line.encode())

    def _tile(self, tile: Tile) -> bytes:
        raw = self._read(f"tile/{tile.path}")
        if raw is None:  # the run that completed it did not come to its end
            raw = self._read(f"tile/{tile.full.path}")
        if raw is None:
            raise LogInvalidError("a tile is missing")
        return narrowed(raw, tile)

    def _remove_beginnings(self, tile: Tile) -> None:
        """Remove the partial tiles of ``tile``, which is here whole: readers take that instead."""
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
        """Make the file hold ``raw``, whole for every reader, and durably."""
        path = self.path / name
        if self._read(name) == raw:
            return
        beside = path.with_name(f"{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.unlink(missing_ok=True)
            write_new(beside, raw)
            os.chmod(beside, _PUBLIC)  # noqa: PTH101 not of a link
            rename(beside, path)
            sync_directory(path.parent)
        except OSError as error:
            raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> FileUnwritableError:
    return FileUnwritableError(f"cannot write {path}: {os_reason(error)}", hint=writing_hint(error))
