"""A confidential VM of AMD SEV-SNP: what is its own beside what ``tsm`` says of all.

A quote is the report with the certificates that the host put beside it, of which those of known
kinds are kept. Their signatures are not verified here: the recipients of the quote do that.
"""

import hmac
from pathlib import Path

from keyhouse.attestation.errors import QuoteRefusedError
from keyhouse.attestation.platforms.files import read_file
from keyhouse.attestation.platforms.tsm import TSM_REPORTS, ReportFolders, TsmPlatform
from keyhouse.attestation.quote.binding import REPORT_DATA
from keyhouse.attestation.quote.form import MAX_QUOTE, Tee, read_form
from keyhouse.attestation.quote.report import read_report
from keyhouse.attestation.quote.snp import require_sound_snp
from keyhouse.attestation.quote.snp_form import known_certificates, write_table
from keyhouse.base.byte_reader import LayoutError

SEV_GUEST = Path("/dev/sev-guest")
"""The device of a guest of SEV-SNP: the directory of reports does not say whose it is."""


class SnpPlatform(TsmPlatform):
    """A confidential VM that can be quoted. Use ``open_snp``. May be shared among threads."""

    name = "snp"
    provider = b"sev_guest"
    needs = "it needs a SEV-SNP guest with Linux 6.7 or newer, and configfs"

    def __init__(self, reports: Path, folders: ReportFolders) -> None:
        super().__init__(reports, folders)
        self.quote(bytes(REPORT_DATA))

    def _auxblob(self, path: Path) -> bytes:
        return read_file(path, limit=MAX_QUOTE) if path.exists() else b""

    def _framed(self, outblob: bytes, auxblob: bytes) -> bytes:
        try:
            return outblob + write_table(known_certificates(auxblob))
        except LayoutError as failure:
            raise self._unusable(f"its certificates cannot be used: {failure}") from None

    def _require_own(self, quote: bytes, report_data: bytes) -> None:
        try:
            form = read_form(quote)
            report = read_report(form)
            if form.tee is not Tee.SNP or report.snp is None:
                raise self._unusable("its quote is not a report of SEV-SNP")
            require_sound_snp(report.snp)
        except QuoteRefusedError as refused:
            raise self._unusable(f"its report cannot be used: {refused.message}") from None
        if not hmac.compare_digest(report.report_data, report_data):
            raise self._unusable("its report was made over other data than it was asked for")


def open_snp(reports: Path = TSM_REPORTS, folders: ReportFolders | None = None) -> SnpPlatform:
    """Return the platform whose reports are asked for in ``reports``; it has just made one.

    Raises ``PlatformUnusableError`` if there is none or it belongs to another writer,
    ``QuoteNotMadeError`` if the host makes no reports now.
    """
    return SnpPlatform(reports, folders or ReportFolders())
