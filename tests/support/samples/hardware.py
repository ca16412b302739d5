"""Directories that act as the files of hardware platforms: writes determine the later reads.

Quotes are real quotes with replaced report data. So their signatures are invalid, but their
certificates are valid.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from keyhouse_simulation.tsm import TsmReports, answering

__all__ = ["SGX_QUOTE", "TDX_QUOTE", "Gramine", "Tsm"]

_VECTORS: Final = Path(__file__).parents[2] / "attestation" / "vectors"
SGX_QUOTE: Final = (_VECTORS / "sgx_quote").read_bytes()
TDX_QUOTE: Final = (_VECTORS / "tdx_quote").read_bytes()

_SGX_REPORT: Final = slice(48, 432)
_SGX_DATA: Final = slice(48 + 320, 432)
_TDX_DATA: Final = slice(48 + 520, 632)


def over(quote: bytes, data: bytes) -> bytes:
    """Return ``quote`` with the report data ``data``."""
    at = _SGX_DATA if quote[0] == 3 else _TDX_DATA
    return quote[: at.start] + data + quote[at.stop :]


class Gramine:
    """``/dev/attestation`` in the directory ``files``. Tests change it before use."""

    def __init__(self, files: Path) -> None:
        self.files = files
        self.template = SGX_QUOTE  # for reports of this enclave
        self.quote_template = SGX_QUOTE  # for quotes of the host's quoting enclave
        self.lies: Callable[[bytes], bytes] | None = None  # replaces the report data in quotes
        (files / "keys").mkdir(parents=True)
        self.put("attestation_type", b"dcap")
        self.put("my_target_info", b"T" * 512)
        self.put("target_info", b"")
        self.put("user_report_data", b"")
        self.put("keys/_sgx_mrsigner", bytes(range(16)))
        self.put("keys/_sgx_mrenclave", bytes(range(16, 32)))

    def put(self, name: str, content: bytes) -> None:
        (self.files / name).write_bytes(content)

    def asked(self) -> bytes:
        return (self.files / "user_report_data").read_bytes().ljust(64, b"?")

    def report(self) -> bytes:
        assert (self.files / "target_info").read_bytes() == b"T" * 512
        return over(self.template, self.asked())[_SGX_REPORT] + bytes(48)

    def quote(self) -> bytes:
        asked = self.asked()
        return over(self.quote_template, self.lies(asked) if self.lies else asked)

    @contextmanager
    def running(
        self,
        *,
        quote: Callable[[], bytes] | None = None,
        report: Callable[[], bytes] | None = None,
    ) -> Iterator[Path]:
        """Answer reads while the context lasts; ``quote`` and ``report`` replace the answers."""
        with (
            answering(self.files / "quote", quote or self.quote),
            answering(self.files / "report", report or self.report),
        ):
            yield self.files


class Tsm:
    """configfs-tsm in the directory ``reports``. Tests change it before use."""

    def __init__(self, reports: Path) -> None:
        self.reports = reports
        self.provider = b"tdx_guest\n"
        self.quote_template = TDX_QUOTE
        self.interruptions = 0  # number of reads of outblob after a foreign write
        self.seen: list[Path] = []  # all created directories
        self._made: dict[Path, TsmReports] = {}

    def make(self, folder: Path) -> None:
        """Act as the kernel in ``mkdir``."""
        self.seen.append(folder)
        self._made[folder] = TsmReports(lambda asked: self.quote(folder, asked), self.provider)
        self._made[folder].make(folder)

    def quote(self, folder: Path, asked: bytes) -> bytes:
        if self.interruptions:
            self.interruptions -= 1
            asked = b"X" * 64
            (folder / "inblob").write_bytes(asked)
        return over(self.quote_template, asked)

    def remove(self, folder: Path) -> None:
        """Act as the kernel in ``rmdir``."""
        self._made.pop(folder).remove(folder)


def sgx_quote_with(*, at: int, value: bytes) -> bytes:
    """Return the SGX quote with ``value`` at offset ``at`` of its report."""
    start = _SGX_REPORT.start + at
    return SGX_QUOTE[:start] + value + SGX_QUOTE[start + len(value) :]


def sgx_quote_with_versions(product: int, security: int) -> bytes:
    """Return the SGX quote with these ISVPRODID and ISVSVN."""
    return sgx_quote_with(at=256, value=struct.pack("<HH", product, security))
