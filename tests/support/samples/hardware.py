"""Directories that behave like the files of hardware platforms: what is read depends on what was
written before.

A file that the driver makes anew at each reading is a FIFO, and a thread writes into it what the
driver would. Quotes are real ones with other report data: their signatures do not hold, their
certificates do.
"""

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Final

__all__ = ["SGX_QUOTE", "TDX_QUOTE", "Gramine", "Tsm", "answering"]

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


@contextmanager
def answering(path: Path, answer: Callable[[], bytes]) -> Iterator[None]:
    """Let every reader of ``path`` get what ``answer`` then returns."""
    stopping = False

    def serve() -> None:
        while True:
            handle = os.open(path, os.O_WRONLY)  # waits for a reader
            # The next reader gets a FIFO of its own, or it could see two answers.
            renew(path)
            last = stopping  # read once: the last reader is the one that says so
            with os.fdopen(handle, "wb") as file, suppress(BrokenPipeError):
                file.write(b"" if last else answer())
                file.flush()
            if last:
                return

    renew(path)
    thread = Thread(target=serve, name=path.name)
    thread.start()
    try:
        yield
    finally:
        stopping = True
        os.close(os.open(path, os.O_RDONLY))  # waits for the thread
        thread.join()
        path.unlink()


def renew(path: Path) -> None:
    beside = path.with_name(path.name + ".next")
    os.mkfifo(beside, 0o600)
    beside.rename(path)


class Gramine:
    """``/dev/attestation`` in the directory ``files``. Tests bend it before they use it."""

    def __init__(self, files: Path) -> None:
        self.files = files
        self.template = SGX_QUOTE  # of this enclave
        self.quote_template = SGX_QUOTE  # what the host's quoting enclave makes
        self.lies: Callable[[bytes], bytes] | None = None  # about report data
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
        """Answer for as long as the context lasts; ``quote`` and ``report`` take over for one."""
        with (
            answering(self.files / "quote", quote or self.quote),
            answering(self.files / "report", report or self.report),
        ):
            yield self.files


class Tsm:
    """configfs-tsm in the directory ``reports``: what is made in it is filled at once."""

    def __init__(self, reports: Path) -> None:
        self.reports = reports
        self.provider = b"tdx_guest\n"
        self.quote_template = TDX_QUOTE
        self.interruptions = 0  # how many readings of outblob somebody else's write comes before
        self.seen: list[str] = []  # the names of all directories that were made
        self._open: dict[Path, ExitStack] = {}
        reports.mkdir(parents=True)

    def make(self, folder: Path) -> None:
        folder.mkdir()
        self.seen.append(folder.name)
        (folder / "provider").write_bytes(self.provider)
        (folder / "inblob").write_bytes(b"")
        (folder / "generation").write_bytes(b"1\n")
        stack = ExitStack()
        stack.enter_context(answering(folder / "outblob", lambda: self.outblob(folder)))
        self._open[folder] = stack

    def outblob(self, folder: Path) -> bytes:
        if self.interruptions:
            self.interruptions -= 1
            generation = int((folder / "generation").read_bytes())
            (folder / "generation").write_bytes(b"%d\n" % (generation + 1))
            return over(self.quote_template, b"X" * 64)
        return over(self.quote_template, (folder / "inblob").read_bytes())

    def remove(self, folder: Path) -> None:
        self._open.pop(folder).close()
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def sgx_quote_with(*, at: int, value: bytes) -> bytes:
    """Return the SGX quote with ``value`` at ``at``, counted from the start of its report."""
    start = _SGX_REPORT.start + at
    return SGX_QUOTE[:start] + value + SGX_QUOTE[start + len(value) :]


def sgx_quote_with_versions(product: int, security: int) -> bytes:
    """Return the SGX quote of another ISVPRODID and ISVSVN."""
    return sgx_quote_with(at=256, value=struct.pack("<HH", product, security))
