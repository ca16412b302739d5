"""Access to the special files of a platform, and errors for invalid answers."""

import hmac
import os
from pathlib import Path

from keyhouse.attestation.collateral.signatures import read_chain
from keyhouse.attestation.errors import QuoteRefusedError
from keyhouse.attestation.kinds.table import read_form, read_report
from keyhouse.attestation.quote.binding import REPORT_DATA
from keyhouse.attestation.quote.report import Report, Tee
from keyhouse.base.errors import BrokenError, RefusedError, UnavailableError
from keyhouse.base.printable import os_reason

_PIECE = 16_384  # bytes of one read, chosen


class PlatformUnusableError(BrokenError):
    """The platform exists, but not in the required state, or its answer is invalid."""

    code = "platform-unusable"


class QuoteNotMadeError(UnavailableError):
    """The platform cannot make a quote now; a later attempt may succeed."""

    code = "quote-not-made"


class NoSealingKeyError(RefusedError):
    """The platform derives no sealing key, so it cannot keep a state."""

    code = "no-sealing-key"


def require_report_data_length(report_data: bytes) -> None:
    """Raise ``ValueError`` unless ``report_data`` has 64 bytes."""
    if len(report_data) != REPORT_DATA:
        raise ValueError(f"report data have {len(report_data)} bytes, must have {REPORT_DATA}")


def read_file(path: Path, *, limit: int) -> bytes:
    """Return the whole content of ``path``.

    Raises ``PlatformUnusableError`` for a failed read, or for more than ``limit`` bytes.
    """
    try:
        return _read(path, limit)
    except OSError as exc:
        raise _unusable(f"{path} cannot be read: {os_reason(exc)}") from None


def read_quote_file(path: Path, *, limit: int) -> bytes:
    """Return the whole content of ``path``, a file from which a platform returns a quote.

    Raises ``QuoteNotMadeError`` for an empty file or a failed read, because a later read may
    succeed. Raises ``PlatformUnusableError`` for a missing file, or for more than ``limit`` bytes.
    """
    try:
        quote = _read(path, limit)
    except FileNotFoundError as exc:
        raise _unusable(f"{path} cannot be read: {os_reason(exc)}") from None
    except OSError as exc:
        raise _not_made(path, os_reason(exc)) from None
    if not quote:
        raise _not_made(path, "the file is empty")
    return quote


def write_file(path: Path, data: bytes) -> None:
    """Write ``data`` to the existing file ``path`` in a single write.

    Raises ``PlatformUnusableError`` unless the driver accepts all bytes.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            written = os.write(handle, data)
        finally:
            os.close(handle)
    except OSError as exc:
        raise _unusable(f"{path} cannot be written: {os_reason(exc)}") from None
    if written != len(data):
        raise _unusable(f"{path} accepted {written} of {len(data)} bytes")


def own_report(quote: bytes, tee: Tee, report_data: bytes, root_ca: bytes) -> Report:
    """Return the report in a quote that this platform made over ``report_data``.

    The quote must be a whole raw quote of ``tee`` over exactly these 64 bytes, without debug, and
    its certificates must end in ``root_ca``, DER. The recipients verify the signatures; this
    function does not. Raises ``PlatformUnusableError``.
    """
    try:
        form = read_form(quote)
        root = read_chain(form.chain.decode("latin-1"), "the quote's certificate chain")[-1]
    except QuoteRefusedError as exc:
        raise _unusable(exc.message) from None
    if form.tee is not tee or form.raw != quote:
        raise _unusable(f"the quote is not a raw {tee.upper()} quote")
    if root != root_ca:
        # The quote is from a simulation, or the host imitates a platform.
        raise _unusable("the quote's certificate chain does not end in the vendor's root")
    report = read_report(form)
    if not hmac.compare_digest(report.report_data, report_data):
        raise _unusable("the quote has other report data than requested")
    if report.debug:
        raise _unusable("the quote describes an environment with debugging")
    return report


def _read(path: Path, limit: int) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    found = b""
    try:
        while piece := os.read(handle, _PIECE):
            found += piece
            if len(found) > limit:
                raise _unusable(f"{path} has more than {limit} bytes")
    finally:
        os.close(handle)
    return found


def _unusable(problem: str) -> PlatformUnusableError:
    return PlatformUnusableError(
        f"the platform cannot be used: {problem}",
        hint="run the coordinator in a release enclave or confidential VM on real hardware",
    )


def _not_made(path: Path, problem: str) -> QuoteNotMadeError:
    return QuoteNotMadeError(
        f"the platform makes no quote now: {path}: {problem}",
        hint="check that the host's quoting service (AESM or QGS) runs and knows its PCCS",
    )
