"""A confidential VM (Intel TDX), asked through configfs-tsm: a directory for each report.

::

    NAME/provider      "tdx_guest"
    NAME/inblob        takes the 64 bytes that the quote is made over
    NAME/outblob       the raw quote
    NAME/generation    counts the writes to NAME; if it moved, outblob may be of another write

Source: Linux ABI documentation, "configfs-tsm".
"""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NoReturn

import msgspec

from keyhouse.attestation.intel_root import INTEL_SGX_ROOT
from keyhouse.attestation.platforms.files import (
    REPORT_DATA,
    NoSealingKeyError,
    PlatformUnusableError,
    QuoteNotMadeError,
    own_report,
    read_file,
    read_quote_file,
    require_report_data_length,
    write_file,
)
from keyhouse.attestation.platforms.platform import Measurements, SealPolicy
from keyhouse.attestation.quote.form import MAX_QUOTE, Tee
from keyhouse.attestation.quote.td import TdMeasurements
from keyhouse.base.secret import Secret

__all__ = ["TSM_REPORTS", "ReportFolders", "TdxPlatform", "open_tdx"]

TSM_REPORTS = Path("/sys/kernel/config/tsm/report")
"""Where Linux lets reports be asked for."""

_ATTEMPTS = 3
_LONGEST_WORD = 32


class ReportFolders(msgspec.Struct, frozen=True):
    """How the directory of a report comes and goes. The kernel fills it when it is made."""

    make: Callable[[Path], None] = Path.mkdir
    remove: Callable[[Path], None] = Path.rmdir


class TdxPlatform:
    """A confidential VM that can be quoted. Use ``open_tdx``. May be shared among threads."""

    def __init__(self, reports: Path, folders: ReportFolders) -> None:
        self._reports = reports
        self._folders = folders
        self._lock = Lock()
        self._td = self._own_measurements(bytes(REPORT_DATA))

    @property
    def kind(self) -> str:
        """``tdx``."""
        return "tdx"

    @property
    def root_ca(self) -> bytes:
        """Intel's pinned root, DER: nothing joins this platform with another one."""
        return INTEL_SGX_ROOT

    @property
    def td_measurements(self) -> TdMeasurements:
        """What the first quote says about this domain."""
        return self._td

    @property
    def measurements(self) -> Measurements:
        """Raise ``PlatformUnusableError``: a domain has no MRENCLAVE, and none is made up."""
        raise _unusable("a confidential VM cannot be described by the measurements of an enclave")

    @property
    def is_library_os(self) -> bool:
        """False: the domain has a kernel of its own, and other processes."""
        return False

    def quote(self, report_data: bytes) -> bytes:
        """Return a raw quote of this domain over exactly 64 bytes of ``report_data``.

        Raises ``QuoteNotMadeError`` (try again), or ``PlatformUnusableError`` if another one came.
        """
        require_report_data_length(report_data)
        with self._lock:
            quote = self._ask(report_data)
        own_report(quote, Tee.TDX, report_data, self.root_ca)
        return quote

    def sealing_key(self, policy: SealPolicy) -> Secret:
        """Raise ``NoSealingKeyError``: TDX derives none."""
        del policy
        _no_sealing_key()

    def _own_measurements(self, report_data: bytes) -> TdMeasurements:
        td = own_report(self.quote(report_data), Tee.TDX, report_data, self.root_ca).td
        if td is None:
            raise _unusable("its quote is not of a confidential VM")
        return td

    def _ask(self, report_data: bytes) -> bytes:
        folder = self._reports / f"keyhouse-{os.getpid()}-{secrets.token_hex(8)}"
        try:
            self._folders.make(folder)
        except OSError as exc:
            reason = (exc.strerror or "unknown reason").lower()
            raise _unusable(f"{self._reports} takes no request: {reason}") from None
        try:
            return _read_settled(folder, report_data)
        finally:
            # One that stays costs the kernel a little memory, never an answer.
            with suppress(OSError):
                self._folders.remove(folder)


def open_tdx(reports: Path = TSM_REPORTS, folders: ReportFolders | None = None) -> TdxPlatform:
    """Return the platform whose reports are asked for in ``reports``; it has just made a quote.

    Raises ``PlatformUnusableError`` if there is none or it belongs to another writer,
    ``QuoteNotMadeError`` if the host makes no quotes now.
    """
    return TdxPlatform(reports, folders or ReportFolders())


def _read_settled(folder: Path, report_data: bytes) -> bytes:
    """Return a quote during which no other writer changed ``folder``."""
    provider = read_file(folder / "provider", limit=_LONGEST_WORD).strip()
    if provider != b"tdx_guest":
        raise _unusable("configfs-tsm is of another provider than tdx_guest")
    for _ in range(_ATTEMPTS):
        write_file(folder / "inblob", report_data)
        before = _generation(folder)
        quote = read_quote_file(folder / "outblob", limit=MAX_QUOTE)
        if _generation(folder) == before:
            return quote
    raise QuoteNotMadeError(
        "the platform makes no quote now: others keep writing to its report",
        hint="find out what else in this domain writes to configfs-tsm",
    )


def _generation(folder: Path) -> bytes:
    found = read_file(folder / "generation", limit=_LONGEST_WORD).strip()
    if not found.isdigit():
        raise _unusable("the generation of its report is no number")
    return found


def _no_sealing_key() -> NoReturn:
    raise NoSealingKeyError(
        "the platform tdx derives no sealing key: a state kept here could be read by the host,"
        " or by nobody after a restart",
        hint="run the coordinator in an SGX enclave, with --platform gramine",
    )


def _unusable(problem: str) -> PlatformUnusableError:
    return PlatformUnusableError(
        f"the platform tdx cannot be used: {problem}",
        hint="it needs a TDX guest with Linux 6.7 or newer, configfs, and a QGS on the host",
    )
