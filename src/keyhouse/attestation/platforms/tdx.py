"""A confidential VM of Intel TDX: what is its own beside what ``tsm`` says of all."""

from pathlib import Path

from keyhouse.attestation.platforms.files import own_report
from keyhouse.attestation.platforms.tsm import TSM_REPORTS, ReportFolders, TsmPlatform
from keyhouse.attestation.quote.binding import REPORT_DATA
from keyhouse.attestation.quote.form import Tee

TDX_GUEST = Path("/dev/tdx_guest")
"""The device of a TDX guest: the directory of reports does not say whose it is."""


class TdxPlatform(TsmPlatform):
    """A confidential VM that can be quoted. Use ``open_tdx``. May be shared among threads."""

    name = "tdx"
    provider = b"tdx_guest"
    needs = "it needs a TDX guest with Linux 6.7 or newer, configfs, and a QGS on the host"

    def __init__(self, reports: Path, folders: ReportFolders) -> None:
        super().__init__(reports, folders)
        self.quote(bytes(REPORT_DATA))

    def _require_own(self, quote: bytes, report_data: bytes) -> None:
        if own_report(quote, Tee.TDX, report_data, self.root_ca).td is None:
            raise self._unusable("its quote is not of a confidential VM")


def open_tdx(reports: Path = TSM_REPORTS, folders: ReportFolders | None = None) -> TdxPlatform:
    """Return the platform whose reports are asked for in ``reports``; it has just made a quote.

    Raises ``PlatformUnusableError`` if there is none or it belongs to another writer,
    ``QuoteNotMadeError`` if the host makes no quotes now.
    """
    return TdxPlatform(reports, folders or ReportFolders())
