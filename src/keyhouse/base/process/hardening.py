"""The process itself: closed to debuggers, kept out of core files and swap.

Source: security rules, "The process".
"""

import os
import resource
from pathlib import Path
from typing import Final

PR_SET_DUMPABLE: Final = 4
MCL_CURRENT: Final = 1
MCL_FUTURE: Final = 2
MCL_ONFAULT: Final = 4
CAP_IPC_LOCK: Final = 14

MOST_DESCRIPTORS: Final = 65_536
"""Open files that are asked for; more would only make tables larger."""


def harden() -> list[str]:
    """Close the process to core dumps, debuggers and swap; return what the system does not grant.

    It may have as many files open as the host lets it have.
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
    # ONFAULT: without it every reserved page is made real at once, which doubles memory.
    if libc.mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0:
        missing.append("memory may be swapped out (mlockall failed)")
    return missing


def forbid_dumps() -> list[str]:
    """Close the process to core dumps and debuggers, until it executes something else.

    Limits and umask, which a program would inherit, stay. Returns what the system does not grant.
    """
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        return ["the process can be dumped (prctl PR_SET_DUMPABLE)"]
    return []


def _allow_descriptors() -> None:
    """Raise the number of open files as far as this process may: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _may_lock_memory() -> bool:
    """Tell whether all memory, also what is still to come, may be locked.

    Under a limit, locking would succeed now and make later allocations fail.
    """
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY:
        return True
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    effective = next((line for line in status.splitlines() if line.startswith("CapEff:")), "")
    return bool(int(effective.partition(":")[2] or "0", 16) >> CAP_IPC_LOCK & 1)
