"""Hardens the process: no debuggers, no core files, no swap, and little memory kept.

Source: ``SECURITY.md``, "Defences".
"""

import os
import resource
from pathlib import Path
from typing import Final

PR_SET_DUMPABLE: Final = 4  # linux/prctl.h
MCL_CURRENT: Final = 1  # sys/mman.h
MCL_FUTURE: Final = 2  # sys/mman.h
MCL_ONFAULT: Final = 4  # sys/mman.h
CAP_IPC_LOCK: Final = 14  # linux/capability.h

M_TRIM_THRESHOLD: Final = -1  # malloc.h of glibc
M_MMAP_THRESHOLD: Final = -3  # malloc.h of glibc

LARGE: Final = 1024 * 1024
"""Bytes of a block of memory that is mapped by itself, and given back when it is free."""

MOST_DESCRIPTORS: Final = 65_536
"""Limit of open files to request. A larger limit would only enlarge tables in the kernel."""


def harden() -> list[str]:
    """Forbid core dumps, debuggers and swap. Return the protections that the system refuses.

    Also sets the umask 0077, and raises the limit of open files as far as the host permits.
    """
    import ctypes

    missing = forbid_dumps()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _allow_descriptors()
    os.umask(0o077)
    libc = ctypes.CDLL(None, use_errno=True)
    if not _may_lock_memory():
        missing.append("memory may be swapped out (the memlock limit is too low for mlockall)")
        return missing
    # Without ONFAULT the kernel allocates every reserved page at once, which doubles memory.
    if libc.mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0:
        missing.append("memory may be swapped out (mlockall failed)")
    return missing


def forbid_dumps() -> list[str]:
    """Forbid core dumps and debuggers until this process executes another program.

    Limits and the umask stay unchanged, because the executed program would inherit them. Returns
    the protections that the system refuses.
    """
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        return ["the process can be dumped (prctl PR_SET_DUMPABLE)"]
    return []


def return_large_blocks() -> None:
    """Let the C library return freed blocks of ``LARGE`` bytes (1 MiB) or more to the system.

    glibc does so at once for blocks above a threshold: each of them has a mapping of its own. But
    each freed block raises the threshold to its own size, up to 32 MiB. The bodies of later
    requests are then parts of the heap, and a small block behind them keeps the heap from
    shrinking. Measured: after 6 refused bodies of 14 MB, 90 MB stayed allocated although no object
    referred to them. A fixed threshold prevents this. A C library without ``mallopt`` keeps its own
    rules.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE)
        mallopt(M_TRIM_THRESHOLD, 2 * LARGE)  # a heap that shrinks each time would cost


def return_free_memory() -> None:
    """Let the C library return all free memory of this process to the system, if it can.

    The imports and the certificates of a start leave free blocks behind. Measured: a launcher that
    stays beside its program keeps 45 in place of 47 MiB.
    """
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _allow_descriptors() -> None:
    """Raise the limit of open files as far as permitted. Each connection is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _may_lock_memory() -> bool:
    """Return whether the process may lock all present and future memory.

    Under a limit, the result is False: the process could lock its memory now, but later allocations
    would fail.
    """
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY:
        return True
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    effective = next((line for line in status.splitlines() if line.startswith("CapEff:")), "")
    return bool(int(effective.partition(":")[2] or "0", 16) >> CAP_IPC_LOCK & 1)
