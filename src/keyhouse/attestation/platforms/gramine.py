"""SGX under Gramine, through the files of ``/dev/attestation``.

::

    attestation_type       must be "dcap"
    my_target_info         512 bytes, to be written to target_info
    user_report_data       takes the 64 bytes of report data for report and quote
    report                 432 bytes: made by the processor for target_info
    quote                  the raw DCAP quote, made by the host's quoting enclave
    keys/_sgx_mrsigner     16 bytes, the sealing key of ProductKey
    keys/_sgx_mrenclave    16 bytes, the sealing key of UniqueKey

The whole process shares ``user_report_data``. So a lock covers write and read, and the report data
of a quote are compared with the requested data. The quote passes through the host, but the report
of the processor does not. So the identity in the quote is compared with this report.

Both keys depend on the present security versions of processor and enclave (CPUSVN, ISVSVN). A
change of such a version, for example by new microcode, changes the keys. Source: Gramine
documentation, "Attestation and Secret Provisioning".
"""

import hmac
from pathlib import Path
from threading import Lock
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from keyhouse.attestation.kinds.dcap.form import read_sgx_report
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
from keyhouse.attestation.quote.report import MAX_QUOTE, Report, Tee
from keyhouse.attestation.vendor_roots import AMD_ROOTS, INTEL_SGX_ROOT
from keyhouse.base.secret import Secret

DEV_ATTESTATION = Path("/dev/attestation")
"""The directory in which Gramine offers the platform to its program."""

_TARGET_INFO = 512  # bytes of TARGETINFO, Intel SDM volume 3D
_REPORT = 432  # bytes of REPORT, Intel SDM volume 3D
_KEY = 16  # bytes of EGETKEY's result, Intel SDM volume 3D
_SEALING_KEY = 32  # bytes: an AES-256 key
_LONGEST_TYPE = 16  # bytes, chosen: the word of Gramine is dcap, epid or none
_KEY_FILES = {SealPolicy.PRODUCT_KEY: "_sgx_mrsigner", SealPolicy.UNIQUE_KEY: "_sgx_mrenclave"}
_SEALING = b"keyhouse gramine sealing v1\0"


class GraminePlatform:
    """An SGX enclave under Gramine. Use ``open_gramine``. Threads may share it."""

    kind: Final = "gramine"
    is_library_os: Final = True
    root_ca: Final = INTEL_SGX_ROOT  # pinned, so quotes of another vendor never verify
    amd_roots: Final = AMD_ROOTS

    def __init__(self, files: Path) -> None:
        self._files = files
        self._lock = Lock()
        self._own = self._report()

    @property
    def measurements(self) -> Measurements:
        """The measurements of this enclave in the processor's own report."""
        return Measurements(
            unique_id=self._own.mrenclave,
            signer_id=self._own.mrsigner,
            product_id=self._own.isvprodid,
            security_version=self._own.isvsvn,
        )

    def quote(self, report_data: bytes) -> bytes:
        """Return a raw quote of this enclave over exactly 64 bytes of ``report_data``.

        Raises ``QuoteNotMadeError`` (try again), or ``PlatformUnusableError`` for a wrong quote.
        """
        require_report_data_length(report_data)
        with self._lock:
            write_file(self._files / "user_report_data", report_data)
            quote = read_quote_file(self._files / "quote", limit=MAX_QUOTE)
        made_report = own_report(quote, Tee.SGX, report_data, self.root_ca)
        if _identity(made_report) != _identity(self._own):
            raise _unusable("the quote does not describe this enclave")
        return quote

    def sealing_key(self, policy: str) -> Secret:
        """Return the 32-byte key of ``policy``: HKDF-SHA256 over the processor's 16 bytes."""
        path = self._files / "keys" / _KEY_FILES[SealPolicy(policy)]
        key = read_file(path, limit=_KEY)
        if len(key) != _KEY:
            raise _unusable(f"{path} gives {len(key)} bytes, must give {_KEY}")
        if not any(key):
            raise _unusable(f"{path} gives zeros in place of a key")
        info = _SEALING + policy.encode("ascii")
        return Secret(HKDF(SHA256(), _SEALING_KEY, salt=None, info=info).derive(key))

    def _report(self) -> Report:
        """Return the processor's report about this enclave, without help from the host."""
        requested = bytes(REPORT_DATA)
        with self._lock:
            target = self._read_exactly("my_target_info", _TARGET_INFO)
            write_file(self._files / "target_info", target)
            write_file(self._files / "user_report_data", requested)
            report = read_sgx_report(self._read_exactly("report", _REPORT))
        if not hmac.compare_digest(report.report_data, requested):
            raise _unusable("the report has other report data than requested")
        if report.debug:
            raise _unusable("the enclave permits debugging: it was built with sgx.debug = true")
        return report

    def _read_exactly(self, name: str, length: int) -> bytes:
        content = read_file(self._files / name, limit=length)
        if len(content) != length:
            raise _unusable(f"{self._files / name} gives {len(content)} bytes, must give {length}")
        return content


def open_gramine(files: Path = DEV_ATTESTATION) -> GraminePlatform:
    """Return the platform with its files in ``files``, after a first quote.

    Raises ``PlatformUnusableError`` if the process runs without SGX, without DCAP attestation or in
    a debug enclave, and ``QuoteNotMadeError`` if the host cannot make quotes now.
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
        hint="run the coordinator with gramine-sgx, sgx.debug = false and"
        ' sgx.remote_attestation = "dcap"',
    )
