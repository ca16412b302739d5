"""Checks of the machine: versions, platforms, limits and ports."""

import errno
import resource
import shlex
import socket
import ssl
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, Literal

from keyhouse.base.process.packed_code import packed_file
from keyhouse.base.version import VERSION
from keyhouse.cli.doctor.finding import CheckResult
from keyhouse.wire.ports import CLIENT_API_PORT, WORKLOAD_API_PORT

_OLDEST_PYTHON: Final = (3, 11)
_FEW_DESCRIPTORS: Final = 4096  # each connection needs a descriptor
_PORTS: Final = {CLIENT_API_PORT: "--client-addr", WORKLOAD_API_PORT: "--mesh-addr"}

_THIS_MACHINE: Final = ("127.", "localhost", "[::1]")


def machine_findings(host: str = "") -> Iterator[CheckResult]:
    """Yield the findings about this machine. The checks need no coordinator and no privileges.

    ``host`` is the address of the coordinator that the command verifies, or "". For an address of
    this machine, a used port is not a problem: probably that coordinator uses the port.
    """
    yield from _versions()
    yield from _platforms()
    yield check_descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    yield check_locked_memory(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
    for port, flag in _PORTS.items():
        yield _port(port, flag, host)


def _versions() -> Iterator[CheckResult]:
    from cryptography.hazmat.backends.openssl import backend

    yield CheckResult("keyhouse", "ok", VERSION)
    yield check_packed_code(Path(packed_file(command)) for command in ("serve", "run"))
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= _OLDEST_PYTHON:
        yield CheckResult("python", "ok", python)
    else:
        yield CheckResult("python", "problem", python, "install Python 3.11 or newer")
    both = f"{ssl.OPENSSL_VERSION}; of the cryptography package: {backend.openssl_version_text()}"
    if ssl.OPENSSL_VERSION_INFO >= (3,):
        yield CheckResult("openssl", "ok", both)
    else:
        yield CheckResult("openssl", "warning", both, "install a Python with OpenSSL 3")


def _platforms() -> Iterator[CheckResult]:
    from keyhouse.attestation.platforms.files import PlatformUnusableError
    from keyhouse.attestation.platforms.find import PlatformMissingError, platform_name, simulation

    has_platform = False
    try:
        yield CheckResult(f"platform {platform_name('auto')}", "ok", "present")
        has_platform = True
    except PlatformMissingError as missing:
        fix = "only coordinators and workloads need a platform; other commands do not"
        yield CheckResult("platform", "skipped", missing.message, fix)
    except PlatformUnusableError as unusable:
        yield CheckResult("platform", "problem", unusable.message, unusable.hint)
    try:
        simulation()
    except PlatformMissingError as missing:
        yield CheckResult("simulation", "ok", missing.message)
        return
    level: Literal["ok", "warning"] = "warning" if has_platform else "ok"
    fix = "remove the simulation from production machines" if has_platform else ""
    yield CheckResult("simulation", level, "installed", fix)


def check_packed_code(files: Iterable[Path]) -> CheckResult:
    """Return the result about ``files``, the packed code (files of bytecode) of two commands.

    Packed code speeds up the start of `keyhouse serve` and `keyhouse run`. An installation by pip
    does not create these files.
    """
    check = "packed code"
    if all(file.is_file() for file in files):
        return CheckResult(check, "ok", "present")
    packing = f"{shlex.quote(sys.executable)} -I -m keyhouse.base.process.pack_code"
    fix = f"run as the installing user: {packing}"
    return CheckResult(check, "ok", "missing: `keyhouse serve` and `run` start slower", fix)


def check_descriptors(most: int) -> CheckResult:
    """Return the result about ``most``, the process's limit for open files.

    Each connection to a coordinator is an open file.
    """
    if most == resource.RLIM_INFINITY:
        return CheckResult("open files", "ok", "no limit")
    if most < _FEW_DESCRIPTORS:
        fix = "raise the hard limit: ulimit -Hn, or LimitNOFILE=65536 of the systemd unit"
        return CheckResult(
            "open files", "warning", f"at most {most}; each connection needs one", fix
        )
    return CheckResult("open files", "ok", f"at most {most}")


def check_locked_memory(most: int) -> CheckResult:
    """Return the result about ``most``, the process's limit for locked memory in bytes.

    The system never swaps out locked memory.
    """
    if most == resource.RLIM_INFINITY:
        return CheckResult("locked memory", "ok", "no limit")
    fix = "set LimitMEMLOCK=infinity in the systemd unit, or use a machine without swap"
    text = f"at most {most} bytes: a coordinator's secrets may be swapped out"
    return CheckResult("locked memory", "warning", text, fix)


def _port(port: int, flag: str, host: str) -> CheckResult:
    check = f"port {port}"
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            used = error.errno == errno.EADDRINUSE
            if used and host.startswith(_THIS_MACHINE):
                return CheckResult(check, "ok", f"in use, probably by the coordinator at {host}")
            state = "in use, perhaps by a coordinator" if used else "not permitted"
            return CheckResult(check, "warning", state, f"pass another port to serve: {flag}")
    return CheckResult(check, "ok", "free")
