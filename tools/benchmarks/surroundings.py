"""The machine of a measurement: processor, disk, builds of Python and OpenSSL, other work."""

import os
import platform
import ssl
import time
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from benchmarks.processes import Processors
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["Busy", "Surroundings", "busy", "look_around"]

_SYNCS: Final = 50
_BLOCK: Final = b"\0" * 4096
_TRIES: Final = 5
_TURNS: Final = 100_000
_VERIFICATIONS: Final = 50


class Surroundings(msgspec.Struct, frozen=True):
    """The properties of the machine that influence the figures.

    ``processors`` is the number of used processors; the servers use one of them. ``sync_us`` is the
    median time of write and fdatasync of 4 KiB in the data directory. ``loop_ns`` is the time of
    one turn of a small loop; it depends on the build of Python. ``verify_us`` is the time to
    verify an ECDSA signature on P-384. ``loop_ns`` and ``verify_us`` make figures of two machines
    comparable.
    """

    processors: int
    processor: str
    memory_mib: int
    kernel: str
    python: str
    openssl: str
    file_system: str
    sync_us: float
    loop_ns: float
    verify_us: float


class Busy(msgspec.Struct, frozen=True):
    """Processor seconds of all processors together, since the start of the machine.

    ``possible`` is the total, ``used`` is the work of all programs, and ``stolen`` is the time
    that a hypervisor took.
    """

    possible: float
    used: float
    stolen: float


def look_around(folder: Path, processors: Processors) -> Surroundings:
    """Measure the machine, and the disk of ``folder`` with a temporary file."""
    return Surroundings(
        processors=1 if processors.shared else 2,
        processor=_first_field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        kernel=platform.release(),
        python=platform.python_version(),
        openssl=ssl.OPENSSL_VERSION,
        file_system=_file_system(folder),
        sync_us=_sync_time(folder),
        loop_ns=_loop_time(),
        verify_us=_verification_time(),
    )


def busy() -> Busy:
    """Return the processor seconds since the start of the machine."""
    with Path("/proc/stat").open(encoding="ascii") as lines:
        fields = [int(field) for field in lines.readline().split()[1:]]
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, waiting, hard, soft, stolen = fields[:8]
    used = user + nice + system + hard + soft
    return Busy(
        possible=(used + idle + waiting + stolen) / tick, used=used / tick, stolen=stolen / tick
    )


def _first_field(file: Path, name: str) -> str:
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return ""


def _file_system(folder: Path) -> str:
    """Return the type of the file system at the longest mount point above ``folder``."""
    path, best, kind = folder.resolve(), -1, "unknown"
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _device, point, found, *_rest = line.split(" ")
        if path.is_relative_to(point) and len(point) > best:
            best, kind = len(point), found
    return kind


def _sync_time(folder: Path) -> float:
    target = folder / "sync"
    times = []
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for _ in range(_SYNCS):
            begun = time.perf_counter()
            os.write(descriptor, _BLOCK)
            os.fdatasync(descriptor)
            times.append((time.perf_counter() - begun) * 1e6)
    finally:
        os.close(descriptor)
        target.unlink()
    return round(median(times), 1)


def _loop_time() -> float:
    """Return nanoseconds for a turn. The best of five tries has the least disturbance."""
    best = float("inf")
    for _ in range(_TRIES):
        begun = time.process_time_ns()
        held: dict[int, tuple[int, str]] = {}
        for turn in range(_TURNS):
            held[turn & 255] = (turn, str(turn))
        best = min(best, (time.process_time_ns() - begun) / _TURNS)
    return round(best, 1)


def _verification_time() -> float:
    """Return microseconds for a verification, the best of five tries."""
    key, scheme = ec.generate_private_key(ec.SECP384R1()), ec.ECDSA(hashes.SHA384())
    public, signature = key.public_key(), key.sign(b"", scheme)
    best = float("inf")
    for _ in range(_TRIES):
        begun = time.process_time_ns()
        for _ in range(_VERIFICATIONS):
            public.verify(signature, b"", scheme)
        best = min(best, (time.process_time_ns() - begun) / _VERIFICATIONS / 1000)
    return round(best, 1)
