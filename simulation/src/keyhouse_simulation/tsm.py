"""A directory with the behaviour of configfs-tsm: each read depends on earlier writes.

::

    NAME/provider      "tdx_guest" or "sev_guest"
    NAME/inblob        accepts the 64 bytes for the quote
    NAME/outblob       the raw quote or report over the last write; empty before
    NAME/auxblob       with a report: the certificates from the host, padded
    NAME/generation    the number of writes to inblob, of all processes

``TsmReports`` does the kernel's work for ``mkdir`` and ``rmdir``. The files are FIFOs, and threads
do the kernel's work when a process opens a file. Source: Linux ABI documentation, "configfs-tsm".
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread

from keyhouse.attestation import Tee
from keyhouse.attestation.kinds.snp.form import SNP_REPORT
from keyhouse.attestation.kinds.table import KINDS, kind_of

_BLOB = 64
_PAGES = 16_384  # bytes of the host's buffer
_MANY = 1024  # blobs in a full pipe


class TsmReports:
    """Creates and removes the directories of reports. ``quote`` returns a quote over 64 bytes."""

    def __init__(self, quote: Callable[[bytes], bytes], provider: bytes = b"tdx_guest\n") -> None:
        self._quote = quote
        self._provider = provider
        self._open: dict[Path, ExitStack] = {}

    def make(self, folder: Path) -> None:
        """Create ``folder`` with its files. The files answer until ``remove``."""
        folder.mkdir(mode=0o700, parents=True)
        (folder / "provider").write_bytes(self._provider)
        with ExitStack() as ends:
            report = ends.enter_context(_taking(folder / "inblob", self._quote))
            ends.enter_context(answering(folder / "outblob", report.outblob))
            if b"sev" in self._provider:
                ends.enter_context(answering(folder / "auxblob", report.auxblob))
            ends.enter_context(answering(folder / "generation", report.generation))
            self._open[folder] = ends.pop_all()

    def remove(self, folder: Path) -> None:
        """Remove ``folder``. Also remove an empty parent folder."""
        self._open.pop(folder).close()
        (folder / "provider").unlink()
        folder.rmdir()
        with suppress(OSError):
            folder.parent.rmdir()


class _Report:
    """The writes to the pipe ``inblob``, a non-blocking descriptor."""

    def __init__(self, inblob: int, quote: Callable[[bytes], bytes]) -> None:
        self._inblob = inblob
        self._quote = quote
        self._asked = b""
        self._writes = 0
        self._lock = Lock()

    def outblob(self) -> bytes:
        """Return the quote over the last write, or the report alone."""
        return _split(self._whole())[0]

    def auxblob(self) -> bytes:
        """Return the table of certificates for the report over the last write."""
        return _split(self._whole())[1].ljust(_PAGES, b"\0")

    def _whole(self) -> bytes:
        with self._lock:
            self._read_request()
            return self._quote(self._asked) if len(self._asked) == _BLOB else b""

    def generation(self) -> bytes:
        """Return the number of writes."""
        with self._lock:
            self._read_request()
            return b"%d\n" % self._writes

    def _read_request(self) -> None:
        """Read the new writes. Each write of 64 bytes is in the pipe as a whole."""
        written = b""
        with suppress(BlockingIOError):
            while piece := os.read(self._inblob, _BLOB * _MANY):
                written += piece
        blobs = [written[at : at + _BLOB] for at in range(0, len(written), _BLOB)]
        if blobs:
            self._asked = blobs[-1]
            self._writes += len(blobs)


def _split(quote: bytes) -> tuple[bytes, bytes]:
    if kind_of(quote) is not KINDS[Tee.SNP]:
        return quote, b""
    return quote[:SNP_REPORT], quote[SNP_REPORT:]


@contextmanager
def _taking(path: Path, quote: Callable[[bytes], bytes]) -> Iterator[_Report]:
    os.mkfifo(path, 0o600)
    # Open for reading and writing: without a writer, a reader would read the end of the file.
    handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield _Report(handle, quote)
    finally:
        os.close(handle)
        path.unlink()


@contextmanager
def answering(path: Path, answer: Callable[[], bytes]) -> Iterator[None]:
    """Answer every reader of ``path`` with the current result of ``answer``."""
    stopping = False

    def serve() -> None:
        while True:
            handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)  # waits for a reader
            # The next reader opens a new FIFO. Otherwise this reader could read two answers.
            _renew(path)
            last = stopping  # read once: the reader after ``stopping = True`` is the last
            with os.fdopen(handle, "wb") as file, suppress(BrokenPipeError):
                file.write(b"" if last else answer())
                file.flush()
            if last:
                return

    _renew(path)
    thread = Thread(target=serve, name=path.name)
    thread.start()
    try:
        yield
    finally:
        stopping = True
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))  # waits for the thread
        thread.join()
        path.unlink()


def _renew(path: Path) -> None:
    beside = path.with_name(path.name + ".next")
    os.mkfifo(beside, 0o600)
    beside.rename(path)
