"""SGX under Gramine, asked through the files of ``/dev/attestation``.

::

    attestation_type       "dcap", or nothing here can be used
    my_target_info         512 bytes, to be written to target_info
    user_report_data       takes the 64 bytes that report and quote are made over
    report                 432 bytes: made by the processor for target_info
    quote                  the raw DCAP quote; the host's quoting enclave makes it
    keys/_sgx_mrsigner     16 bytes, the sealing key of ProductKey
    keys/_sgx_mrenclave    16 bytes, the sealing key of UniqueKey

``user_report_data`` is one for the whole process, so a lock holds write and read together, and what
comes is compared with what was asked for. The quote passes through the host: who it speaks of is
compared with the report, which does not.

Both keys belong to the present security versions of processor and enclave (CPUSVN, ISVSVN): after
an update of microcode or version they are others. Source: Gramine documentation, "Attestation and
Secret Provisioning".
"""

import hmac
from pathlib import Path
from threading import Lock
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from keyhouse.attestation.platforms.files import (
    PlatformUnusableError,
    own_report,
    read_file,
    read_quote_file,
    require_report_data_length,
    write_file,
)
from keyhouse.attestation.platforms.platform import Measurements, SealPolicy
from keyhouse.attestation.quote.binding import REPORT_DATA
from keyhouse.attestation.quote.form import MAX_QUOTE, Tee
from keyhouse.attestation.quote.report import Report, read_sgx_report
from keyhouse.attestation.vendor_roots import AMD_ROOTS, INTEL_SGX_ROOT
from keyhouse.base.secret import Secret

DEV_ATTESTATION = Path("/dev/attestation")
"""Where Gramine shows the platform to what runs in it."""

_TARGET_INFO = 512
_REPORT = 432
_KEY = 16
_SEALING_KEY = 32
_LONGEST_TYPE = 16
_KEY_FILES = {SealPolicy.PRODUCT_KEY: "_sgx_mrsigner", SealPolicy.UNIQUE_KEY: "_sgx_mrenclave"}
_SEALING = b"keyhouse gramine sealing v1\0"


class GraminePlatform:
    """An SGX enclave under Gramine. Use ``open_gramine``. May be shared among threads."""

    kind: Final = "gramine"
    is_library_os: Final = True
    root_ca: Final = INTEL_SGX_ROOT  # pinned: nothing joins this platform with another one
    amd_roots: Final = AMD_ROOTS

    def __init__(self, files: Path) -> None:
        self._files = files
        self._lock = Lock()
        self._own = self._report()

    @property
    def measurements(self) -> Measurements:
        """What the processor's own report says about this enclave."""
        return Measurements(
            unique_id=self._own.mrenclave,
            signer_id=self._own.mrsigner,
            product_id=self._own.isvprodid,
            security_version=self._own.isvsvn,
        )

    def quote(self, report_data: bytes) -> bytes:
        """Return a raw quote of this enclave over exactly 64 bytes of ``report_data``.

        Raises ``QuoteNotMadeError`` (try again), or ``PlatformUnusableError`` if another one came.
        """
        require_report_data_length(report_data)
        with self._lock:
            write_file(self._files / "user_report_data", report_data)
            quote = read_quote_file(self._files / "quote", limit=MAX_QUOTE)
        found = own_report(quote, Tee.SGX, report_data, self.root_ca)
        if _identity(found) != _identity(self._own):
            raise _unusable("the quote is of another enclave than this one")
        return quote

    def sealing_key(self, policy: SealPolicy) -> Secret:
        """Return the 32-byte key of ``policy``: HKDF-SHA256 over the 16 bytes of the processor."""
        path = self._files / "keys" / _KEY_FILES[policy]
        key = read_file(path, limit=_KEY)
        if len(key) != _KEY:
            raise _unusable(f"{path} gives {len(key)} bytes, must give {_KEY}")
        if not any(key):
            raise _unusable(f"{path} gives no key but zeros")
        info = _SEALING + policy.value.encode("ascii")
        return Secret(HKDF(SHA256(), _SEALING_KEY, salt=None, info=info).derive(key))

    def _report(self) -> Report:
        """Return what the processor says of this enclave, without the host's help."""
        asked = bytes(REPORT_DATA)
        with self._lock:
            target = self._read_exactly("my_target_info", _TARGET_INFO)
            write_file(self._files / "target_info", target)
            write_file(self._files / "user_report_data", asked)
            report = read_sgx_report(self._read_exactly("report", _REPORT))
        if not hmac.compare_digest(report.report_data, asked):
            raise _unusable("the report was made over other report data than it was asked for")
        if report.debug:
            raise _unusable("the enclave can be debugged: it was built with sgx.debug = true")
        return report

    def _read_exactly(self, name: str, length: int) -> bytes:
        found = read_file(self._files / name, limit=length)
        if len(found) != length:
            raise _unusable(f"{self._files / name} gives {len(found)} bytes, must give {length}")
        return found


def open_gramine(files: Path = DEV_ATTESTATION) -> GraminePlatform:
    """Return the platform whose files are in ``files``; it has just made a quote.

    Raises ``PlatformUnusableError`` if the process runs without SGX, without DCAP attestation or in
    a debug enclave, ``QuoteNotMadeError`` if the host makes no quotes now.
    """
    path = files / "attestation_type"
    kind = read_file(path, limit=_LONGEST_TYPE).removesuffix(b"\n")
    if kind != b"dcap":
        word = kind.decode("ascii") if kind in {b"none", b"epid"} else "something unknown"
        raise _unusable(f"{path} says {word}, must say dcap")
    platform = GraminePlatform(files)
    platform.quote(bytes(REPORT_DATA))
    return platform


def _identity(report: Report) -> tuple[bytes, bytes, int, int]:
    return report.mrenclave, report.mrsigner, report.isvprodid, report.isvsvn


def _unusable(problem: str) -> PlatformUnusableError:
    return PlatformUnusableError(
        f"the platform gramine cannot be used: {problem}",
        hint='run it with gramine-sgx, sgx.debug = false and sgx.remote_attestation = "dcap"',
    )
