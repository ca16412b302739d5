"""Isolates the process from the environment.

The host chooses the environment. ``SSLKEYLOGFILE`` would write session keys to a file, and
``PYTHONPATH`` would load other code. So Keyhouse runs as ``python -I -B`` with an allow-list of
variables:

- A process without these options, or with a closed standard stream, executes itself again with
  clean variables.
- A process with these options, and without a variable that Python, OpenSSL or the loader reads,
  only removes variables. This takes half the time.
- In an enclave, Gramine's measured manifest fixes the variables, and marks them as measured by
  ``KEYHOUSE_ISOLATED``.

A launcher keeps its original variables for the program that it executes later. Until then the
variables have names without a meaning for Python, OpenSSL or the loader.

This module and its imports load almost nothing, because a process that executes itself again has
wasted every other import. Source: ``SECURITY.md``, "Defences".
"""

import os
import sys

TYPE_CHECKING = False  # importing typing takes longer than the rest of this module
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

HELD_PREFIX = "KEYHOUSE_HELD_"

_PREFIXES = ("KEYHOUSE_", "EDG_", "LC_")
_NAMES = frozenset({"LANG", "NOTIFY_SOCKET", "NO_COLOR", "OE_SIMULATION", "TERM", "TZ"})
_ISOLATED = "KEYHOUSE_ISOLATED"

MEASURED = "measured"
"""Value of ``KEYHOUSE_ISOLATED`` in a measured manifest that fixes all variables."""

# Variables of shells, sessions, service managers, Kubernetes and Python's images. An isolated
# interpreter removes them before any code reads them. PATH only matters for a program that is named
# without a folder; the person who gives such a name accepts the search.
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

_STANDARD_ERROR = 2  # descriptor number, POSIX


def clean_environment(environment: "Mapping[str, str]") -> dict[str, str]:
    """Return the variables of ``environment`` on the allow-list.

    The list excludes SSLKEYLOGFILE, OPENSSL_CONF, PYTHON*, LD_*, proxies and all unknown variables.
    """
    return {
        name: value
        for name, value in environment.items()
        if (name in _NAMES or name.startswith(_PREFIXES))
        and name != _ISOLATED
        and not name.startswith(HELD_PREFIX)
    }


def isolate(module: str, arguments: "Sequence[str]", *, hold: bool = False) -> None:
    """Run this process as ``python -I -B -m module arguments`` with clean variables.

    Returns if the process already runs in this way; otherwise executes this command in place of the
    process. Call this function before any import that reads the environment, as OpenSSL does. With
    ``hold``, ``release_environment`` later returns the original variables.
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
    """Return the variables of ``environment`` for this process; None: execute the process again.

    The process runs as ``python -I -B``. The result has variables in three cases:

    - ``KEYHOUSE_ISOLATED`` is ``process_id``, the id of this process. So the process has already
      executed itself with clean variables.
    - Each variable is on the allow-list, or has no effect.
    - The platform has measured the variables. Then the platform has measured the options ``-I -B``
      as well, because no variable can set these options.

    ``hold``: as in ``isolate``.
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
    """Return whether this process runs as ``python -I -B`` with open standard streams."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return bool(sys.flags.isolated and sys.flags.dont_write_bytecode) and None not in streams


def _open_standard_streams() -> None:
    """Open the descriptors 0 to 2 on the null device if they are closed.

    Otherwise the next opened file would receive the number of a standard stream. A library's
    message on standard error would then be written into that file.
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
    """Explain why ``command`` could not be executed with ``environment``, and exit."""
    from keyhouse.base.errors import RefusedError
    from keyhouse.base.log import write_error
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


def hold_environment(environment: "Mapping[str, str]") -> dict[str, str]:
    """Return ``environment`` with a prefix before each name. Libraries read no such variable."""
    return {HELD_PREFIX + name: value for name, value in environment.items()}


def release_environment() -> dict[bytes, bytes]:
    """Remove the prefixed variables from the environment; return them without the prefix."""
    prefix = HELD_PREFIX.encode("ascii")
    names = [name for name in os.environb if name.startswith(prefix)]
    return {name.removeprefix(prefix): os.environb.pop(name) for name in names}
