"""Replace the delivered files of a running program as a set.

1. All new files are written and synced beside their places first. On a full disk or a read-only
   file system this step fails, and every old file stays in place.
2. Then the files are renamed in the order of ``PartialParameters.in_order``. Nothing can fail in
   between except the file system itself. After such a failure the next attempt renames all of them
   again.
3. The program is notified only after the last rename.

Two renames are not one step. A program that reads both files at this moment can get a mixed pair:
the new key and the former certificate. If the program reads the key first, it can also get the
former key and the new certificate. A single file with both parts avoids this.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from keyhouse.base.durable_files import name_beside, write_new
from keyhouse.base.secret import Secret
from keyhouse.launcher.files import (
    FilePath,
    ObstacleError,
    open_folder,
    places_of,
    remove_files,
    require_replaceable,
    write_error,
    write_gramine_key,
)


class _Prepared(NamedTuple):
    folder: int  # an open descriptor
    beside: bytes  # name of the new file


class FileSet:
    """The delivered files that this process has written, with digests of their contents."""

    def __init__(self) -> None:
        self._written: dict[FilePath, bytes] = {}

    def replace(self, files: Mapping[str, Secret], order: Sequence[str]) -> int:
        """Write each of ``files`` with a new content; remove earlier files that ``files`` lacks.

        ``files``: contents by path. ``order``: the paths in the order of their replacement. Return
        the number of written and removed files. Raises ``LaunchRefusedError``. After this error the
        old files are in place, unless a rename failed.
        """
        places = {place.path: place for place in places_of(files)}
        digests = {
            place: hashlib.sha256(files[path].reveal()).digest() for path, place in places.items()
        }
        ordered = [places[path] for path in order]
        changed = [place for place in ordered if self._written.get(place) != digests[place]]
        with ExitStack() as after:
            prepared = {
                place: _prepare(place, files[place.path].reveal(), after)
                for place in changed
                if not place.is_gramine_key
            }
            for place in changed:
                self._written.pop(place, None)  # until its replacement is done
            for place in changed:
                _replace(place, prepared.get(place), files[place.path])
            for folder in {each.folder for each in prepared.values()}:
                with suppress(OSError):  # some file systems cannot sync a directory
                    os.fsync(folder)
        gone = [place for place in self._written if place not in digests]
        remove_files(gone)
        self._written = digests
        return len(changed) + len(gone)

    def remove(self) -> None:
        """Remove the written files, because the program could not be started."""
        remove_files(list(self._written))
        self._written = {}


def _prepare(place: FilePath, content: bytes, after: ExitStack) -> _Prepared:
    """Write ``content`` to a new file beside the file ``place``, for a later rename.

    The end of ``after`` removes the new file, unless the file was renamed. Raises
    ``LaunchRefusedError``.
    """
    beside = name_beside().encode("ascii")
    try:
        folder = open_folder(place, make=True)
        after.callback(os.close, folder)
        require_replaceable(folder, place.name)
        write_new(beside, content, folder=folder)
    except (OSError, ObstacleError) as error:
        raise write_error(place, error) from None
    after.callback(_remove_beside, folder, beside)
    return _Prepared(folder, beside)


def _replace(place: FilePath, prepared: _Prepared | None, content: Secret) -> None:
    try:
        if prepared is None:
            write_gramine_key(place, content.reveal())
        else:
            folder, beside = prepared
            os.rename(beside, place.name, src_dir_fd=folder, dst_dir_fd=folder)
    except (OSError, ObstacleError) as error:
        raise write_error(place, error) from None


def _remove_beside(folder: int, beside: bytes) -> None:
    with suppress(OSError):  # it was renamed
        os.unlink(beside, dir_fd=folder)
