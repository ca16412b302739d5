"""Files of AMD's collateral, as they are at each call: operators replace them in use."""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from keyhouse.attestation.collateral.amd import AmdCollateral, read_amd_collateral, read_amd_files
from keyhouse.attestation.snp.authority import Roots, end_of_lists


class AmdFiles:
    """Gives what is in ``path``, a file or a directory. Calls are not made from several threads.

    The files are read at each call, and parsed again if their content is another one: a revocation
    list counts from when it is there, also where files have no times to be compared by. ``roots``:
    AMD's, by line of processors.

    Making one reads them. That, and each call, raises ``CollateralRefusedError`` if they cannot be
    used.
    """

    def __init__(self, path: Path, roots: Roots) -> None:
        self._path: Final = path
        self._roots: Final = roots
        self._digest = b""
        self._collateral = AmdCollateral()
        self._end: tuple[tuple[bytes, ...], datetime | None] = (), None
        self()

    def __call__(self) -> AmdCollateral:
        """Return the certificates and lists that the files have now."""
        files = read_amd_files(self._path)
        digest = b"".join(sha256(content).digest() for content in files)
        if digest != self._digest:
            self._collateral = read_amd_collateral(files)
            self._digest = digest
        return self._collateral

    def expires(self) -> datetime | None:
        """Return the end, UTC, of the list in use that ends first; None if there is none."""
        lists = self._collateral.lists
        if self._end[0] is not lists:
            self._end = lists, end_of_lists(lists, self._roots)
        return self._end[1]

    def fetches(self) -> Mapping[str, int]:
        """Return nothing: files are not fetched."""
        return {}
