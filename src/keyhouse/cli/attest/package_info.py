"""`keyhouse package-info`: the identity of a signed enclave, as a manifest wants it."""

import hashlib
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from keyhouse.base.errors import RefusedError
from keyhouse.cli.output.files import read_file
from keyhouse.cli.output.show import show_json, show_rows
from keyhouse.cli.parser.command import AsJson, command
from keyhouse.cli.parser.parameters import Argument

__all__ = ["SIZE", "Signed", "SigstructUnusableError", "package_info", "read_sigstruct"]

SIZE: Final = 1808

_HEADER: Final = bytes.fromhex("06000000e10000000000010000000000")
_HEADER_2: Final = bytes.fromhex("01010000600000006000000001000000")
_DEBUG: Final = 0b10


class SigstructUnusableError(RefusedError):
    """The bytes are no enclave's signature, or it is not true."""

    code = "sigstruct-unusable"


class Signed(msgspec.Struct, frozen=True):
    """The identity that was signed."""

    unique_id: bytes  # MRENCLAVE, 32 bytes
    signer_id: bytes  # MRSIGNER, 32 bytes
    product_id: int
    security_version: int
    debug: bool


def read_sigstruct(raw: bytes) -> Signed:
    """Return what ``raw`` says, once its signature is verified.

    Raises ``SigstructUnusableError``.
    """
    if len(raw) != SIZE or raw[:16] != _HEADER or raw[24:40] != _HEADER_2:
        raise SigstructUnusableError(
            "the file is not the signature of an enclave (SIGSTRUCT)",
            hint=f"Gramine writes one, of {SIZE} bytes, as APP.sig",
        )
    modulus = raw[128:512]
    signature = int.from_bytes(raw[516:900], "little").to_bytes(384, "big")
    try:
        numbers = rsa.RSAPublicNumbers(3, int.from_bytes(modulus, "little"))
        signed = raw[:128] + raw[900:1028]
        numbers.public_key().verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    except (InvalidSignature, ValueError):
        raise SigstructUnusableError("the enclave's signature does not verify") from None
    return Signed(
        unique_id=raw[960:992],
        signer_id=hashlib.sha256(modulus).digest(),
        product_id=int.from_bytes(raw[1024:1026], "little"),
        security_version=int.from_bytes(raw[1026:1028], "little"),
        debug=bool(raw[928] & _DEBUG),
    )


class NoEnclaveError(RefusedError):
    """There is no signed enclave at the path."""

    code = "no-enclave"


@command
def package_info(
    path: Annotated[
        Path,
        Argument(
            metavar="PATH",
            help="the enclave's signature (SIGSTRUCT, .sig), or the directory it is in",
        ),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Print the identity of a signed enclave.

    That is what a manifest names as a package.

    Example: keyhouse package-info app.sig

    The signature is checked: the signer had the key whose digest is SignerID. Gramine writes such a
    file beside the manifest; it tells what was signed, not what is running.
    """
    found = read_sigstruct(read_file(str(_file(path))))
    package = _package(found)
    if as_json:
        show_json(package)
    else:
        show_rows({name: str(value).lower() if name == "Debug" else str(value)
                   for name, value in package.items()})  # fmt: skip


def _package(found: Signed) -> dict[str, object]:
    return {
        "UniqueID": found.unique_id.hex(),
        "SignerID": found.signer_id.hex(),
        "ProductID": found.product_id,
        "SecurityVersion": found.security_version,
        "Debug": found.debug,
    }


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.sig"))
    if len(found) != 1:
        raise NoEnclaveError(
            f"{path} has {len(found)} signatures (*.sig)", hint="name the one that is meant"
        )
    return found[0]
