"""The process itself: isolated from its environment, closed to debuggers, kept out of core files.

A process that was started otherwise starts again, isolated. One that was started isolated, with no
variable that could have had an effect, only removes those that it has, in half of the time. So does
one in an enclave, where the measured manifest fixes the variables and says so.

A launcher carries the variables that it was started with through this, for the program that it
executes in the end. In between they have names that mean nothing to Python, OpenSSL or the loader.
Source: security rules, "The process".
"""

import os
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from keyhouse.base.process.standard_streams import open_standard_streams, write_error

__all__ = [
    "HELD_PREFIX",
    "MEASURED",
    "clean_environment",
    "forbid_dumps",
    "harden",
    "hold_environment",
    "isolate",
    "isolated_environment",
    "release_environment",
]

HELD_PREFIX: Final = "KEYHOUSE_HELD_"

_PREFIXES: Final = ("KEYHOUSE_", "EDG_", "LC_")
_NAMES: Final = frozenset({"LANG", "TERM", "NO_COLOR", "TZ", "OE_SIMULATION"})
_ISOLATED: Final = "KEYHOUSE_ISOLATED"

MEASURED: Final = "measured"
"""Value of ``KEYHOUSE_ISOLATED`` in an enclave's manifest: the variables are fixed there."""

# What shells, service managers, Kubernetes and Python's images set. Nothing in an isolated
# interpreter reads it before it is removed. PATH is where a program without a folder in its name is
# found, and whoever chose that name chose the program.
_WITHOUT_EFFECT: Final = frozenset(
    {
        *("_", "HOME", "HOSTNAME", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "USER"),
        *("INVOCATION_ID", "JOURNAL_STREAM", "STATE_DIRECTORY", "SYSTEMD_EXEC_PID"),
        *("MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"),
        *("GPG_KEY", "PYTHON_SHA256", "PYTHON_VERSION"),
    }
)
_OF_KUBERNETES: Final = "KUBERNETES_"

PR_SET_DUMPABLE: Final = 4
MCL_CURRENT: Final = 1
MCL_FUTURE: Final = 2
MCL_ONFAULT: Final = 4
CAP_IPC_LOCK: Final = 14

MOST_DESCRIPTORS: Final = 65_536
"""Open files that are asked for; more would only make tables larger."""


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what may stay of ``environment``: an allow-list, so nothing new slips in.

    SSLKEYLOGFILE, OPENSSL_CONF, PYTHON*, LD_* and proxies are gone by that.
    """
    return {
        name: value
        for name, value in environment.items()
        if (name in _NAMES or name.startswith(_PREFIXES))
        and name != _ISOLATED
        and not name.startswith(HELD_PREFIX)
    }


def isolate(module: str, arguments: Sequence[str], *, hold: bool = False) -> None:
    """Isolate this process from its environment: ``python -I -B``, with clean variables.

    Replaces the process unless it was started so. Call it before anything is imported that reads
    the environment (OpenSSL does, when it is loaded). With ``hold`` the old variables are kept for
    a program to be executed later: ``release_environment`` returns them.
    """
    if _is_isolated_interpreter():
        found = isolated_environment(os.environ, os.getpid(), hold=hold)
        if found is not None:
            os.environ.clear()
            os.environ.update(found)
            return
    open_standard_streams()
    environment = _kept(os.environ, hold=hold) | {_ISOLATED: str(os.getpid())}
    command = [sys.executable, "-I", "-B", "-m", module, *arguments]
    try:
        os.execve(sys.executable, command, environment)  # noqa: S606 our own interpreter, fixed words
    except OSError as error:
        _stay_away(error, command, environment)


def isolated_environment(
    environment: Mapping[str, str], process_id: int, *, hold: bool
) -> dict[str, str] | None:
    """Return the variables with which an interpreter started as ``python -I -B`` may continue.

    None: it has to start again. It may continue if it is that second start, which is told by its
    number; if all variables are allowed or without effect; or if they are measured, which has
    an effect only with the words ``-I -B``, and no variable sets those.
    """
    mark = environment.get(_ISOLATED)
    given = {name: value for name, value in environment.items() if name != _ISOLATED}
    if mark == str(process_id):
        return given
    others = given.keys() - clean_environment(given).keys() - _WITHOUT_EFFECT
    harmless = mark is None and all(name.startswith(_OF_KUBERNETES) for name in others)
    if mark == MEASURED or harmless:
        return _kept(given, hold=hold)
    return None


def _is_isolated_interpreter() -> bool:
    """Tell whether this is ``python -I -B``, with standard streams that are open."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return bool(sys.flags.isolated and sys.flags.dont_write_bytecode) and None not in streams


def _kept(environment: Mapping[str, str], *, hold: bool) -> dict[str, str]:
    held = hold_environment(environment) if hold else {}
    return clean_environment(environment) | held


def _stay_away(error: OSError, command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Tell why there is no isolated process, and exit: this one must not continue."""
    from keyhouse.base.errors import RefusedError
    from keyhouse.base.process.error_text import error_text
    from keyhouse.base.process.exec_error import exec_failure

    file, *argv = map(os.fsencode, command)
    env = {
        os.fsencode(name.removeprefix(HELD_PREFIX)): os.fsencode(value)
        for name, value in environment.items()
    }
    message, hint = exec_failure(error, file, argv, env)
    write_error(error_text(RefusedError(message, hint=hint)))
    sys.exit(1)


def harden() -> list[str]:
    """Close the process to core dumps, debuggers and swap; return what could not be had.

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

    Limits and umask, which a program would inherit, stay. Returns what could not be had.
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
    from pathlib import Path  # not for the process that is only to be replaced

    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    effective = next((line for line in status.splitlines() if line.startswith("CapEff:")), "")
    return bool(int(effective.partition(":")[2] or "0", 16) >> CAP_IPC_LOCK & 1)


def hold_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` under names that have no effect."""
    return {HELD_PREFIX + name: value for name, value in environment.items()}


def release_environment() -> dict[bytes, bytes]:
    """Remove the held variables from this process's environment; return them as they were."""
    prefix = HELD_PREFIX.encode("ascii")
    names = [name for name in os.environb if name.startswith(prefix)]
    return {name.removeprefix(prefix): os.environb.pop(name) for name in names}
