"""Checks of files: the user's files, and a coordinator's state directory."""

import os
import shutil
import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

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
from keyhouse.base.secret import Secret
from keyhouse.base.user_files import read_file
from keyhouse.cli.doctor.finding import CheckResult, check_expiry, check_mode, check_start, failed

_LITTLE_SPACE: Final = 256 << 20  # bytes, chosen: a new epoch writes the whole state again
_RENEW: Final = "create a new certificate, and add it to the manifest by an update"


def user_findings(cert: Path | None, key: Path | None, now: datetime) -> Iterator[CheckResult]:
    """Yield the findings about a user's certificate in ``cert`` and private key in ``key`` (PEM).

    None for ``cert`` or ``key`` means that no option names the file. ``now`` is compared with the
    validity of the certificate.
    """
    certificate = None
    if cert is None and key is None:
        fix = "pass --cert and --key (PEM)"
        yield CheckResult("user certificate", "skipped", "no certificate and no key", fix)
    if cert is not None:
        try:
            certificate = x509.load_pem_x509_certificate(read_file(str(cert)))
        except KeyhouseError as error:
            yield failed("user certificate", error)
        except ValueError:
            fix = "pass the certificate as PEM"
            yield CheckResult("user certificate", "problem", f"{cert} is not a certificate", fix)
    if certificate is not None:
        early = check_start("user certificate", certificate.not_valid_before_utc, now)
        end = certificate.not_valid_after_utc
        yield early or check_expiry("user certificate", end, now, _RENEW)
    if key is not None:
        yield from _key(key, certificate)


def _key(path: Path, certificate: x509.Certificate | None) -> Iterator[CheckResult]:
    try:
        status = path.stat()
        key = load_pem_private_key(Secret(read_file(str(path))).reveal(), None)
    except (OSError, KeyhouseError):
        yield CheckResult("user key", "problem", f"{path} cannot be read", "pass a readable file")
        return
    except (ValueError, TypeError, UnsupportedAlgorithm):
        fix = "pass the private key as PEM without encryption"
        yield CheckResult("user key", "problem", f"{path} is not a usable private key", fix)
        return
    yield check_mode("user key", stat.S_IMODE(status.st_mode), mine=status.st_uid == os.getuid())
    if certificate is not None:
        yield _pair(key, certificate)


def _pair(key: PrivateKeyTypes, certificate: x509.Certificate) -> CheckResult:
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        certified = certificate.public_key().public_bytes(*form)
    except (ValueError, UnsupportedAlgorithm):
        fix = "create a certificate for another type of key, such as ECDSA P-256"
        return CheckResult("user certificate", "problem", "has a key of an unusable type", fix)
    if key.public_key().public_bytes(*form) == certified:
        return CheckResult("user key", "ok", "belongs to the certificate")
    fix = "pass a certificate and its own key"
    return CheckResult("user key", "problem", "belongs to another certificate", fix)


def directory_findings(path: Path, *, is_named: bool) -> Iterator[CheckResult]:
    """Yield the findings about the state directory ``path``.

    ``is_named``: an option names the directory, so a missing directory is a problem. Otherwise,
    the check of a missing directory is skipped.
    """
    from keyhouse.journal import check_state_directory

    if not path.exists() and not is_named:
        yield CheckResult(
            "state directory", "skipped", f"there is no {path}", "pass --data-dir DIR"
        )
        return
    try:
        user = check_state_directory(path)
    except KeyhouseError as error:
        yield failed("state directory", error)
        return
    yield CheckResult("state directory", "ok", user or "private, and not in use")
    free = shutil.disk_usage(path if path.exists() else path.absolute().parent).free
    if free < _LITTLE_SPACE:
        fix = "free space: a full disk stops every change"
        yield CheckResult("disk space", "warning", f"{free >> 20} MiB are free", fix)
    else:
        yield CheckResult("disk space", "ok", f"{free >> 20} MiB are free")


def remembered_findings(files: dict[str, Path | None]) -> Iterator[CheckResult]:
    """Yield a finding about each existing file in ``files``: whether other users can access it.

    These files decide about trust: the contexts and the memory. ``files`` has the path of each file
    by the name of its check. None in place of a path means that there is no such file.
    """
    for check, path in files.items():
        if path is None:
            continue
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            fix = "check the permissions of the file"
            yield CheckResult(check, "problem", f"{path} cannot be used: {os_reason(error)}", fix)
            continue
        yield check_mode(check, stat.S_IMODE(status.st_mode), mine=status.st_uid == os.getuid())
