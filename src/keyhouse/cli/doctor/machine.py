"""What `keyhouse doctor` looks at on this machine: versions, platforms, limits, ports, files."""

import errno
import os
import resource
import shlex
import shutil
import socket
import ssl
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.printable import os_reason
from keyhouse.base.process.packed_code import packed_file
from keyhouse.base.secret import Secret
from keyhouse.base.version import VERSION
from keyhouse.cli.doctor.finding import Finding, check_expiry, check_mode, check_start, failed
from keyhouse.cli.output.files import read_file
from keyhouse.wire.address import CLIENT_API_PORT, WORKLOAD_API_PORT

_OLDEST_PYTHON: Final = (3, 11)
_FEW_DESCRIPTORS: Final = 4096
_PORTS: Final = {CLIENT_API_PORT: "--client-addr", WORKLOAD_API_PORT: "--mesh-addr"}


def machine_findings() -> Iterator[Finding]:
    """Yield what is found; nothing here needs a coordinator or another right than to look."""
    yield from _versions()
    yield from _platforms()
    yield check_descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    yield check_locked_memory(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
    for port, flag in _PORTS.items():
        yield _port(port, flag)


def _versions() -> Iterator[Finding]:
    from cryptography.hazmat.backends.openssl import backend

    yield Finding("keyhouse", "ok", VERSION)
    yield check_packed_code(Path(packed_file(command)) for command in ("serve", "run"))
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= _OLDEST_PYTHON:
        yield Finding("python", "ok", python)
    else:
        yield Finding("python", "problem", python, "install Python 3.11 or newer")
    both = f"{ssl.OPENSSL_VERSION}; of the cryptography package: {backend.openssl_version_text()}"
    if ssl.OPENSSL_VERSION_INFO >= (3,):
        yield Finding("openssl", "ok", both)
    else:
        yield Finding("openssl", "warning", both, "take a Python that was built with OpenSSL 3")


def _platforms() -> Iterator[Finding]:
    from keyhouse.attestation.platforms.files import PlatformUnusableError
    from keyhouse.attestation.platforms.find import PlatformMissingError, platform_name, simulation

    found = False
    try:
        yield Finding(f"platform {platform_name('auto')}", "ok", "here")
        found = True
    except PlatformMissingError as missing:
        fix = "a coordinator needs one; commands that talk to a coordinator do not"
        yield Finding("platform", "skipped", missing.message, fix)
    except PlatformUnusableError as unusable:
        yield Finding("platform", "problem", unusable.message, unusable.hint)
    try:
        simulation()
    except PlatformMissingError as missing:
        yield Finding("simulation", "ok", missing.message)
        return
    level: Literal["ok", "warning"] = "warning" if found else "ok"
    fix = "leave it out of production" if found else ""
    yield Finding("simulation", level, "installed", fix)


def check_packed_code(files: Iterable[Path]) -> Finding:
    """Return whether the code of a start is in ``files``, of which installing by pip makes none."""
    check = "packed code"
    if all(file.is_file() for file in files):
        return Finding(check, "ok", "here")
    fix = f"as who installed it: {shlex.quote(sys.executable)} -I -m keyhouse.cli.pack_code"
    return Finding(check, "ok", "missing: `keyhouse serve` and `run` start slower", fix)


def check_descriptors(most: int) -> Finding:
    """Return whether a process may open enough files: each connection is one."""
    if most == resource.RLIM_INFINITY:
        return Finding("open files", "ok", "no limit")
    if most < _FEW_DESCRIPTORS:
        fix = "raise the hard limit: ulimit -Hn, or LimitNOFILE=65536 of the systemd unit"
        return Finding("open files", "warning", f"at most {most}, one for each connection", fix)
    return Finding("open files", "ok", f"at most {most}")


def check_locked_memory(most: int) -> Finding:
    """Return whether a process may lock its memory; ``most`` in bytes."""
    if most == resource.RLIM_INFINITY:
        return Finding("locked memory", "ok", "no limit")
    fix = "LimitMEMLOCK=infinity of the systemd unit, or a machine without swap"
    found = f"at most {most} bytes: a coordinator's secrets may be swapped out"
    return Finding("locked memory", "warning", found, fix)


def _port(port: int, flag: str) -> Finding:
    check = f"port {port}"
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            used = error.errno == errno.EADDRINUSE
            found = "in use: a coordinator, or something else" if used else "may not be used"
            return Finding(check, "warning", found, f"another one for serve: {flag}")
    return Finding(check, "ok", "free")


_LITTLE_SPACE: Final = 256 << 20  # bytes
_RENEW: Final = "make a new certificate, and put it into the manifest by an update"


def user_findings(cert: Path | None, key: Path | None, now: datetime) -> Iterator[Finding]:
    """Yield what is found about a user's certificate and key."""
    certificate = None
    if cert is None and key is None:
        fix = "pass --cert and --key (PEM)"
        yield Finding("user certificate", "skipped", "no certificate and no key", fix)
    if cert is not None:
        try:
            certificate = x509.load_pem_x509_certificate(read_file(str(cert)))
        except KeyhouseError as error:
            yield failed("user certificate", error)
        except ValueError:
            fix = "name the certificate, PEM"
            yield Finding("user certificate", "problem", f"{cert} holds no certificate", fix)
    if certificate is not None:
        early = check_start("user certificate", certificate.not_valid_before_utc, now)
        end = certificate.not_valid_after_utc
        yield early or check_expiry("user certificate", end, now, _RENEW)
    if key is not None:
        yield from _key(key, certificate)


def _key(path: Path, certificate: x509.Certificate | None) -> Iterator[Finding]:
    try:
        seen = path.stat()
        key = load_pem_private_key(Secret(read_file(str(path))).reveal(), None)
    except (OSError, KeyhouseError):
        yield Finding("user key", "problem", f"{path} cannot be read", "name another file")
        return
    except (ValueError, TypeError, UnsupportedAlgorithm):
        fix = "name the private key, PEM, not encrypted"
        yield Finding("user key", "problem", f"{path} holds no key that can be used", fix)
        return
    yield check_mode("user key", stat.S_IMODE(seen.st_mode), mine=seen.st_uid == os.getuid())
    if certificate is not None:
        yield _pair(key, certificate)


def _pair(key: PrivateKeyTypes, certificate: x509.Certificate) -> Finding:
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        certified = certificate.public_key().public_bytes(*form)
    except (ValueError, UnsupportedAlgorithm):
        fix = "make one for a key of another kind, such as ECDSA P-256"
        return Finding("user certificate", "problem", "is of a key that cannot be used", fix)
    if key.public_key().public_bytes(*form) == certified:
        return Finding("user key", "ok", "belongs to the certificate")
    fix = "name the key and the certificate that were made together"
    return Finding("user key", "problem", "belongs to another certificate", fix)


def directory_findings(path: Path, *, named: bool) -> Iterator[Finding]:
    """Yield what is found about a state directory; ``named``: someone asked for this one."""
    from keyhouse.journal import check_state_directory

    if not path.exists() and not named:
        yield Finding("state directory", "skipped", f"there is no {path}", "name one: --data-dir")
        return
    try:
        user = check_state_directory(path)
    except KeyhouseError as error:
        yield failed("state directory", error)
        return
    yield Finding("state directory", "ok", user or "private, and nobody is using it")
    free = shutil.disk_usage(path if path.exists() else path.absolute().parent).free
    if free < _LITTLE_SPACE:
        fix = "make room: a full disk stops every change"
        yield Finding("disk space", "warning", f"{free >> 20} MiB are free", fix)
    else:
        yield Finding("disk space", "ok", f"{free >> 20} MiB are free")


def remembered_findings(files: dict[str, Path | None]) -> Iterator[Finding]:
    """Yield what is found about files that say who is trusted, if they are there."""
    for check, path in files.items():
        if path is None:
            continue
        try:
            seen = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            fix = "see that you may read it"
            yield Finding(check, "problem", f"{path} cannot be used: {os_reason(error)}", fix)
            continue
        yield check_mode(check, stat.S_IMODE(seen.st_mode), mine=seen.st_uid == os.getuid())
