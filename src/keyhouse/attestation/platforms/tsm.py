"""A confidential VM, with reports from configfs-tsm: a directory for each report.

The classes for TDX and SEV-SNP are at the end. A quote of SEV-SNP is the report with the
certificates from its host, as far as their kinds are known. Their signatures are not verified here,
because the recipients of the quote verify them.

::

    NAME/provider      "tdx_guest" or "sev_guest"
    NAME/inblob        takes the 64 bytes of report data
    NAME/outblob       the raw quote or report
    NAME/auxblob       SEV-SNP: the table of certificates; empty or missing if the host sends none
    NAME/generation    counts the writes to NAME, including writes of further programs

Source: Linux ABI documentation, "configfs-tsm".
"""

import hmac
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from keyhouse.attestation.errors import QuoteRefusedError
from keyhouse.attestation.kinds.snp.form import known_certificates, write_table
from keyhouse.attestation.kinds.table import read_form, read_report
from keyhouse.attestation.platforms.files import (
    NoSealingKeyError,
    PlatformUnusableError,
    QuoteNotMadeError,
    own_report,
    read_file,
    read_quote_file,
    require_report_data_length,
    write_file,
)
from keyhouse.attestation.platforms.platform import Measurements
from keyhouse.attestation.quote.binding import REPORT_DATA
from keyhouse.attestation.quote.report import MAX_QUOTE, Tee
from keyhouse.attestation.vendor_roots import AMD_ROOTS, INTEL_SGX_ROOT
from keyhouse.base.byte_reader import LayoutError
from keyhouse.base.secret import Secret

TSM_REPORTS = Path("/sys/kernel/config/tsm/report")
"""The directory in which Linux accepts requests for reports."""

TDX_GUEST = Path("/dev/tdx_guest")
"""The device of a TDX guest. The directory of reports does not state the vendor."""

_ATTEMPTS = 3  # chosen: another program may write between two steps
_LONGEST_WORD = 32  # bytes, chosen: names and numbers of configfs-tsm are shorter

SEV_GUEST = Path("/dev/sev-guest")
"""The device of an SEV-SNP guest. The directory of reports does not state the vendor."""


class ReportFolders(msgspec.Struct, frozen=True):
    """Makes and removes the configfs directory of a report. The kernel fills a new directory."""

    make: Callable[[Path], None] = Path.mkdir
    remove: Callable[[Path], None] = Path.rmdir


class TsmPlatform(ABC):
    """A confidential VM that has made a first quote. Threads may share it.

    Each kind of VM is a subclass with a ``name``, the required ``provider`` of configfs-tsm, and
    ``needs``: the next step in errors, which names the requirements of the platform.
    """

    name: str  # of the platform
    provider: bytes  # required content of NAME/provider
    needs: str  # the next step if the platform cannot be used, for hints
    is_library_os: Final = False  # the VM has its own kernel and other processes

    def __init__(self, reports: Path, folders: ReportFolders) -> None:
        self._reports = reports
        self._folders = folders
        self._lock = Lock()
        self.quote(bytes(REPORT_DATA))

    @property
    def kind(self) -> str:
        """The name of the platform."""
        return self.name

    @property
    def root_ca(self) -> bytes:
        """Intel's pinned root, DER, for quotes of SGX and TDX."""
        return INTEL_SGX_ROOT

    @property
    def amd_roots(self) -> Mapping[str, bytes]:
        """AMD's pinned roots, DER, by line of processors."""
        return AMD_ROOTS

    @property
    def measurements(self) -> Measurements:
        """Raise ``PlatformUnusableError``: a VM has no MRENCLAVE, and none is invented."""
        raise self._unusable(
            "a confidential VM cannot be described by the measurements of an enclave"
        )

    def quote(self, report_data: bytes) -> bytes:
        """Return a raw quote of this VM over exactly 64 bytes of ``report_data``.

        Raises ``QuoteNotMadeError`` (try again), or ``PlatformUnusableError`` for a wrong quote.
        """
        require_report_data_length(report_data)
        with self._lock:
            outblob, auxblob = self._request(report_data)
        quote = self._framed(outblob, auxblob)
        self._require_own(quote, report_data)
        return quote

    def sealing_key(self, policy: str) -> Secret:
        """Raise ``NoSealingKeyError``: a VM derives no sealing key."""
        del policy
        raise NoSealingKeyError(
            f"the platform {self.name} derives no sealing key: a state kept here could be read by"
            " the host, or by nobody after a restart",
            hint="run the coordinator in an SGX enclave, with --platform gramine; or, with --store,"
            " beside other coordinators that hand over the data key",
        )

    def _framed(self, outblob: bytes, auxblob: bytes) -> bytes:
        """Return the quote, made of the files ``outblob`` and ``auxblob`` of configfs-tsm."""
        del auxblob
        return outblob

    @abstractmethod
    def _require_own(self, quote: bytes, report_data: bytes) -> None:
        """Raise ``PlatformUnusableError`` unless ``quote`` is our own, over ``report_data``."""

    def _request(self, report_data: bytes) -> tuple[bytes, bytes]:
        folder = self._reports / f"keyhouse-{os.getpid()}-{secrets.token_hex(8)}"
        try:
            self._folders.make(folder)
        except OSError as exc:
            reason = (exc.strerror or "unknown reason").lower()
            raise self._unusable(f"{self._reports} accepts no request: {reason}") from None
        try:
            return self._read_settled(folder, report_data)
        finally:
            # A directory that stays costs the kernel a little memory, and affects no answer.
            with suppress(OSError):
                self._folders.remove(folder)

    def _read_settled(self, folder: Path, report_data: bytes) -> tuple[bytes, bytes]:
        """Return ``outblob`` (the report) and ``auxblob`` of configfs-tsm, for ``report_data``.

        ``folder``: the directory of the report. Repeats the request if another program wrote to
        the report in the meantime. Raises ``QuoteNotMadeError`` after too many repetitions.
        """
        provider = read_file(folder / "provider", limit=_LONGEST_WORD).strip()
        if provider != self.provider:
            raise self._unusable(f"the provider of configfs-tsm is not {self.provider.decode()}")
        for _ in range(_ATTEMPTS):
            write_file(folder / "inblob", report_data)
            before = self._generation(folder)
            quote = read_quote_file(folder / "outblob", limit=MAX_QUOTE)
            auxblob = self._auxblob(folder / "auxblob")
            if self._generation(folder) == before:
                return quote, auxblob
        raise QuoteNotMadeError(
            "the platform makes no quote now: another program writes to the same report of"
            " configfs-tsm all the time",
            hint="find and stop the other program in this VM that writes to configfs-tsm",
        )

    def _auxblob(self, path: Path) -> bytes:
        """Return the content of the file ``auxblob``: certificates beside the report, or empty."""
        del path
        return b""

    def _generation(self, folder: Path) -> bytes:
        found = read_file(folder / "generation", limit=_LONGEST_WORD).strip()
        if not found.isdigit():
            raise self._unusable("the generation of the configfs-tsm report is not a number")
        return found

    def _unusable(self, problem: str) -> PlatformUnusableError:
        return PlatformUnusableError(
            f"the platform {self.name} cannot be used: {problem}", hint=self.needs
        )


class TdxPlatform(TsmPlatform):
    """A confidential VM of Intel TDX. Use ``open_tdx``. Threads may share it."""

    name = "tdx"
    provider = b"tdx_guest"
    needs = "start a TDX guest with Linux 6.7 or newer and configfs, and a QGS on the host"

    def _require_own(self, quote: bytes, report_data: bytes) -> None:
        if own_report(quote, Tee.TDX, report_data, self.root_ca).measurements is None:
            raise self._unusable("the quote does not describe a confidential VM")


def open_tdx(reports: Path = TSM_REPORTS, folders: ReportFolders | None = None) -> TdxPlatform:
    """Return the platform that requests reports in ``reports``, after a first quote.

    ``folders`` makes and removes the directory of each report; None: as directories of configfs.

    Raises ``PlatformUnusableError`` if ``reports`` accepts no request or has another provider, and
    ``QuoteNotMadeError`` if the host cannot make quotes now.
    """
    return TdxPlatform(reports, folders or ReportFolders())


class SnpPlatform(TsmPlatform):
    """A confidential VM of AMD SEV-SNP. Use ``open_snp``. Threads may share it."""

    name = "snp"
    provider = b"sev_guest"
    needs = "start a SEV-SNP guest with Linux 6.7 or newer and configfs"

    def _auxblob(self, path: Path) -> bytes:
        return read_file(path, limit=MAX_QUOTE) if path.exists() else b""

    def _framed(self, outblob: bytes, auxblob: bytes) -> bytes:
        try:
            return outblob + write_table(known_certificates(auxblob))
        except LayoutError as failure:
            raise self._unusable(
                f"the certificates that the host sent with the report cannot be used: {failure}"
            ) from None

    def _require_own(self, quote: bytes, report_data: bytes) -> None:
        try:
            form = read_form(quote)
            report = read_report(form)
            if form.tee is not Tee.SNP or report.measurements is None:
                raise self._unusable("the quote is not a report of SEV-SNP")
            report.measurements.require_sound()
        except QuoteRefusedError as refused:
            raise self._unusable(refused.message) from None
        if not hmac.compare_digest(report.report_data, report_data):
            raise self._unusable("the report has other report data than requested")


def open_snp(reports: Path = TSM_REPORTS, folders: ReportFolders | None = None) -> SnpPlatform:
    """Return the platform that requests reports in ``reports``, after a first report.

    ``folders`` makes and removes the directory of each report; None: as directories of configfs.

    Raises ``PlatformUnusableError`` if ``reports`` accepts no request or has another provider, and
    ``QuoteNotMadeError`` if the host cannot make reports now.
    """
    return SnpPlatform(reports, folders or ReportFolders())
