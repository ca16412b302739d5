"""The collateral for reports of AMD, in the files of AMD's key distribution service.

For each line of processors, such as Milan, the collateral is the revocation list, and certificates
that hosts do not send with reports. These are the certificates of the intermediate authority (ASK,
or ASVK for VLEK) and of keys (VCEK, VLEK). A file is PEM with any number of certificates and lists,
or a single DER object.
"""

import binascii
import os
import stat
import string
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from keyhouse.attestation.errors import CollateralRefusedError
from keyhouse.base.byte_reader import der_elements
from keyhouse.base.durable_files import without_waiting
from keyhouse.base.hex_repr import Readable
from keyhouse.base.printable import os_reason

_LONGEST: Final = 1 << 20  # maximum bytes of a file; real files have about 5,000
# Files of a directory, chosen: room for the VCEK of each machine of a large cluster.
_MOST: Final = 1024

_PEM_BEGIN: Final = b"-----BEGIN "
_PEM_NAMES: Final = (b"CERTIFICATE", b"X509 CRL")
_PEM_ENDS: Final = (b"CERTIFICATE-----", b"X509 CRL-----")
_BASE64: Final = (string.ascii_letters + string.digits + "+/=").encode("ascii")
_SEQUENCE, _INTEGER, _VERSION = 0x30, 0x02, 0xA0


class AmdCollateral(Readable, frozen=True):
    """AMD's certificates and revocation lists for reports of SEV-SNP, DER, not verified."""

    certificates: tuple[bytes, ...] = ()
    lists: tuple[bytes, ...] = ()


def read_amd_collateral(files: Iterable[bytes]) -> AmdCollateral:
    """Return the certificates and lists in ``files``, the contents of one or more files.

    Raises ``CollateralRefusedError``.
    """
    certificates: list[bytes] = []
    lists: list[bytes] = []
    for der in (each for content in files for each in _parts(content)):
        (certificates if _is_certificate(der) else lists).append(der)
    return AmdCollateral(tuple(certificates), tuple(lists))


def read_amd_path(path: Path) -> AmdCollateral:
    """Return the certificates and lists in the file ``path``, or in the files of a directory.

    Raises ``CollateralRefusedError``.
    """
    return amd_collateral_in(read_amd_files(path))


def amd_collateral_in(files: Mapping[Path, bytes]) -> AmdCollateral:
    """Return the certificates and lists in ``files``, which maps paths to contents.

    Raises ``CollateralRefusedError``, which names the path of the refused file.
    """
    read = []
    for path, content in files.items():
        try:
            read.append(read_amd_collateral([content]))
        except CollateralRefusedError as refused:
            raise _refused(path, refused.message) from None
    return AmdCollateral(
        tuple(der for each in read for der in each.certificates),
        tuple(der for each in read for der in each.lists),
    )


def read_amd_files(path: Path) -> dict[Path, bytes]:
    """Return the content of the file ``path``, or of each file in a directory, by path.

    Hidden files are skipped. Raises ``CollateralRefusedError``.
    """
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        if len(files) > _MOST:
            raise _refused(path, f"the directory has more than {_MOST} files")
    except OSError as error:
        raise _refused(path, os_reason(error)) from None
    named = [file for file in files if file == path or not file.name.startswith(".")]
    return {file: _content(file) for file in named}


def _content(file: Path) -> bytes:
    # Does not wait for the writer of a pipe, and does not read a device without end.
    try:
        with open(file, "rb", opener=without_waiting) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise _refused(file, "the path is not a regular file")
            content = opened.read(_LONGEST + 1)
    except OSError as error:
        raise _refused(file, os_reason(error)) from None
    if len(content) > _LONGEST:
        raise _refused(file, f"the file has more than {_LONGEST} bytes")
    return content


def _refused(path: Path, problem: str) -> CollateralRefusedError:
    return CollateralRefusedError(
        f"AMD's collateral {path} cannot be used: {problem}",
        hint="name a file from AMD's key distribution service, or a directory of such files",
    )


def _parts(content: bytes) -> Iterator[bytes]:
    if not content.lstrip().startswith(_PEM_BEGIN):
        yield content
        return
    for block in content.split(_PEM_BEGIN)[1:]:
        begin, _, rest = block.partition(b"-----")
        body, _, end = rest.partition(b"-----END ")
        if begin not in _PEM_NAMES or end.rstrip() not in _PEM_ENDS:
            raise _unreadable()
        if not body[:1].isspace() or body.translate(None, _BASE64).strip():
            raise _unreadable()
        try:
            yield binascii.a2b_base64(body)
        except ValueError:
            raise _unreadable() from None


def _is_certificate(der: bytes) -> bool:
    """Return whether ``der`` is a certificate, and not a revocation list.

    A certificate begins with an explicitly tagged version field (RFC 5280, 4.1), a list with an
    integer or an algorithm.
    """
    try:
        ((tag, content),) = der_elements(der)
        tbs_tag, tbs = next(der_elements(content))
        first, _ = next(der_elements(tbs))
    except (ValueError, IndexError, StopIteration):
        raise _unreadable() from None
    if (tag, tbs_tag) != (_SEQUENCE, _SEQUENCE) or first not in {_INTEGER, _VERSION}:
        raise _unreadable()
    return first == _VERSION


def _unreadable() -> CollateralRefusedError:
    return CollateralRefusedError(
        "the content is neither a certificate nor a revocation list, as PEM or DER",
        hint="fetch the file again from AMD's key distribution service",
    )
