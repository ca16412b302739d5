"""The process itself, isolated from its environment.

A process that was started otherwise starts again, isolated. One that was started isolated, with no
variable that could have had an effect, only removes those that it has, in half of the time. So does
one in an enclave, where the measured manifest fixes the variables and says so.

A launcher carries the variables that it was started with through this, for the program that it
executes in the end. In between they have names that mean nothing to Python, OpenSSL or the loader.
This imports next to nothing, as does what it needs: a process that is only to be replaced has done
nothing else. Source: security rules, "The process".
"""

import os
import sys

TYPE_CHECKING = False  # typing, and what it imports, takes longer than all that is here
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

HELD_PREFIX = "KEYHOUSE_HELD_"

_PREFIXES = ("KEYHOUSE_", "EDG_", "LC_")
_NAMES = frozenset({"LANG", "NOTIFY_SOCKET", "NO_COLOR", "OE_SIMULATION", "TERM", "TZ"})
_ISOLATED = "KEYHOUSE_ISOLATED"

MEASURED = "measured"
"""Value of ``KEYHOUSE_ISOLATED`` in an enclave's manifest: the variables are fixed there."""

# What shells, sessions, service managers, Kubernetes and Python's images set. Nothing in an
# isolated interpreter reads it before it is removed. PATH is where a program without a folder in
# its name is found, and anyone who chose that name chose the program.
_WITHOUT_EFFECT = frozenset(
    {
        *("_", "HOME", "HOSTNAME", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "USER"),
        *("CREDENTIALS_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM", "STATE_DIRECTORY"),
        "SYSTEMD_EXEC_PID",
        *("MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"),
        *("GPG_KEY", "PYTHON_SHA256", "PYTHON_VERSION"),
        *("COLORTERM", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "EDITOR", "LESS", "LESSCLOSE"),
        *("LESSOPEN", "LS_COLORS", "MAIL", "PAGER", "SSH_AUTH_SOCK", "SSH_CLIENT"),
        *("SSH_CONNECTION", "SSH_TTY", "SUDO_COMMAND", "SUDO_GID", "SUDO_UID", "SUDO_USER"),
        *("TMUX", "TMUX_PANE", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "VISUAL", "WAYLAND_DISPLAY"),
        *("XDG_CURRENT_DESKTOP", "XDG_DATA_DIRS", "XDG_RUNTIME_DIR", "XDG_SESSION_CLASS"),
        *("XDG_SESSION_ID", "XDG_SESSION_TYPE"),
    }
)
_OF_KUBERNETES = "KUBERNETES_"

_STANDARD_ERROR = 2  # descriptor


def clean_environment(environment: "Mapping[str, str]") -> dict[str, str]:
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


def isolate(module: str, arguments: "Sequence[str]", *, hold: bool = False) -> None:
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
    _open_standard_streams()
    environment = _kept(os.environ, hold=hold) | {_ISOLATED: str(os.getpid())}
    command = [sys.executable, "-I", "-B", "-m", module, *arguments]
    try:
        os.execve(sys.executable, command, environment)  # noqa: S606 our own interpreter, fixed words
    except OSError as error:
        _stay_away(error, command, environment)


def isolated_environment(
    environment: "Mapping[str, str]", process_id: int, *, hold: bool
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


def _open_standard_streams() -> None:
    """Make sure that descriptors 0 to 2 are open, for this process and what it executes.

    Otherwise the next file would get one of them, and a library's message would go into it.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        os.set_inheritable(handle, True)  # noqa: FBT003 the standard library's way
    os.close(handle)


def _kept(environment: "Mapping[str, str]", *, hold: bool) -> dict[str, str]:
    held = hold_environment(environment) if hold else {}
    return clean_environment(environment) | held


def _stay_away(
    error: OSError, command: "Sequence[str]", environment: "Mapping[str, str]"
) -> "NoReturn":
    """Tell why there is no isolated process, and exit: this one must not continue."""
    from keyhouse.base.errors import RefusedError
    from keyhouse.base.process.error_text import error_text
    from keyhouse.base.process.exec_error import exec_failure
    from keyhouse.base.process.standard_streams import write_error

    file, *argv = map(os.fsencode, command)
    env = {
        os.fsencode(name.removeprefix(HELD_PREFIX)): os.fsencode(value)
        for name, value in environment.items()
    }
    message, hint = exec_failure(error, file, argv, env)
    write_error(error_text(RefusedError(message, hint=hint)))
    sys.exit(1)


def hold_environment(environment: "Mapping[str, str]") -> dict[str, str]:
    """Return ``environment`` under names that have no effect."""
    return {HELD_PREFIX + name: value for name, value in environment.items()}


def release_environment() -> dict[bytes, bytes]:
    """Remove the held variables from this process's environment; return them as they were."""
    prefix = HELD_PREFIX.encode("ascii")
    names = [name for name in os.environb if name.startswith(prefix)]
    return {name.removeprefix(prefix): os.environb.pop(name) for name in names}
