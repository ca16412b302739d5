"""A file of collateral that is read again when it changes: operators replace it in use."""

import os
import stat
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from keyhouse.attestation import Collateral, CollateralRefusedError, read_collateral, read_facts
from keyhouse.attestation.collateral.bundle import MAX_COLLATERAL
from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason

__all__ = ["CollateralFile"]

log = structlog.get_logger(__name__)

_Version = tuple[int, int, int, int]


class CollateralUnreadableError(RefusedError):
    """The file of collateral cannot be read."""

    code = "collateral-unreadable"


class CollateralFile:
    """Gives the bundle in the file ``path``. Calls are not made from several threads at a time.

    Making one reads it and raises ``RefusedError`` if it cannot be used. Later a file that cannot
    be used, or is being written, is told in the log and the last good bundle stays: it has its own
    end, and nothing is trusted because it is in this file.
    """

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._seen: _Version | None = None
        self._bundle: Collateral = self._read()

    def __call__(self) -> Collateral:
        """Return the bundle as the file has it now."""
        version = self._version()
        if version == self._seen:
            return self._bundle
        self._seen = version
        try:
            self._bundle = self._read()
            log.info("read the collateral again", path=str(self._path))
        except RefusedError as problem:
            log.warning("the collateral stays as it was", reason=problem.message)
        return self._bundle

    def expires(self) -> datetime | None:
        """Return the end, UTC, of the part of the bundle that ends first; None if it says none."""
        try:
            return read_facts(self._bundle).expires
        except CollateralRefusedError:
            return None

    def fetches(self) -> Mapping[str, int]:
        """Return nothing: a file is not fetched."""
        return {}

    def _read(self) -> Collateral:
        try:
            # Neither waits for a writer of a pipe nor follows a device to its end.
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as file:
                found = os.fstat(handle)
                self._seen = _version(found)
                if not stat.S_ISREG(found.st_mode):
                    raise self._unreadable("it is no file")
                content = file.read(MAX_COLLATERAL + 1)
        except OSError as error:
            raise self._unreadable(os_reason(error)) from None
        try:
            return read_collateral(content)
        except CollateralRefusedError as refused:
            raise self._unreadable(refused.message) from None

    def _version(self) -> _Version | None:
        try:
            return _version(self._path.stat())
        except OSError:
            return None

    def _unreadable(self, reason: str) -> CollateralUnreadableError:
        return CollateralUnreadableError(
            f"the collateral {self._path} cannot be used: {reason}",
            hint="name a bundle file, the JSON object that collateral comes in",
        )


def _version(found: os.stat_result) -> _Version:
    """Return what differs when a file was replaced or written."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
