"""`keyhouse package-info`: print the identity in a signed enclave or a quote, as a package.

SIGSTRUCT is the structure with the signature over an enclave (Intel SDM, volume 3D). It contains
MRENCLAVE, the signer's public key, the product number and the security version.
"""

import hashlib
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from keyhouse.attestation import QuoteForm, QuoteRefusedError, read_form
from keyhouse.attestation.kinds.table import read_report
from keyhouse.attestation.quote.report import Report
from keyhouse.base.errors import RefusedError
from keyhouse.base.user_files import read_file
from keyhouse.cli.attest.claims import claims_of
from keyhouse.cli.attest.quote_file import quote_of_file
from keyhouse.cli.output.show import show_result
from keyhouse.cli.parser import Argument, AsJson, command
from keyhouse.views.measurements import rows_of_vm
from keyhouse.wire.kinds.identity import VmIdentity

SIZE: Final = 1808  # bytes of SIGSTRUCT, Intel SDM volume 3D

_HEADER: Final = bytes.fromhex("06000000e10000000000010000000000")
_HEADER_2: Final = bytes.fromhex("01010000600000006000000001000000")
_DEBUG: Final = 0b10  # the attribute DEBUG, Intel SDM volume 3D
_NOT_VERIFIED: Final = {"verified": "NO: keyhouse attest explain verifies a quote"}


class SigstructUnusableError(RefusedError):
    """The bytes are not an enclave's signature, or the signature does not verify."""

    code = "sigstruct-unusable"


class EnclaveIdentity(msgspec.Struct, frozen=True):
    """The identity of an enclave, from its SIGSTRUCT: the fields of a package."""

    unique_id: bytes  # MRENCLAVE, 32 bytes
    signer_id: bytes  # MRSIGNER, 32 bytes
    product_id: int
    security_version: int
    debug: bool


def read_sigstruct(raw: bytes) -> EnclaveIdentity:
    """Verify the signature of the SIGSTRUCT ``raw``, and return the identity in it.

    Raises ``SigstructUnusableError``.
    """
    if len(raw) != SIZE or raw[:16] != _HEADER or raw[24:40] != _HEADER_2:
        raise SigstructUnusableError(
            f"the file ({len(raw)} bytes) is not an enclave's signature (SIGSTRUCT) or a quote",
            hint=f"pass the file APP.sig ({SIZE} bytes), which gramine-sgx-sign writes, or a quote",
        )
    modulus = raw[128:512]
    signature = int.from_bytes(raw[516:900], "little").to_bytes(384, "big")
    try:
        numbers = rsa.RSAPublicNumbers(3, int.from_bytes(modulus, "little"))
        signed = raw[:128] + raw[900:1028]
        numbers.public_key().verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    except (InvalidSignature, ValueError):
        raise SigstructUnusableError(
            "the enclave's signature (SIGSTRUCT) does not verify under the public key in the file",
            hint="sign the enclave again with gramine-sgx-sign",
        ) from None
    return EnclaveIdentity(
        unique_id=raw[960:992],
        signer_id=hashlib.sha256(modulus).digest(),
        product_id=int.from_bytes(raw[1024:1026], "little"),
        security_version=int.from_bytes(raw[1026:1028], "little"),
        debug=bool(raw[928] & _DEBUG),
    )


class NoEnclaveError(RefusedError):
    """The directory does not contain exactly one file with an enclave's signature (``*.sig``)."""

    code = "no-enclave"


@command
def package_info(
    path: Annotated[
        Path,
        Argument(
            metavar="PATH",
            help="file with an enclave's signature (SIGSTRUCT, .sig), or its directory;"
            " or file with a quote, binary or base64",
        ),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Print the identity of a signed enclave or a quote.

    A manifest names a package by this identity. With --json, the output is ready for the manifest.

    Example: keyhouse package-info app.sig

    For an enclave, the command verifies the signature: the signer had the key with the digest
    SignerID. Gramine writes the .sig file beside its manifest. The file identifies signed code, not
    running code. For a quote, the command prints the contents without verification; keyhouse attest
    explain verifies a quote.
    """
    content = read_file(str(_file(path)))
    form = None if content.startswith(_HEADER) else _quote_form(content)
    if form is None:
        identity = read_sigstruct(content)
    else:
        report = read_report(form)
        vm = _vm(form)
        if vm is not None:
            _show_vm(vm, as_json=as_json)
            return
        identity = _identity_of(report)
    package = _package(identity)
    rows = {name: str(value) for name, value in package.items()}
    rows |= {"Debug": rows["Debug"].lower()} | ({} if form is None else _NOT_VERIFIED)
    show_result(package, rows, as_json=as_json)


def _quote_form(content: bytes) -> QuoteForm | None:
    try:
        return read_form(quote_of_file(content))
    except QuoteRefusedError:
        return None


def _identity_of(report: Report) -> EnclaveIdentity:
    return EnclaveIdentity(
        report.mrenclave, report.mrsigner, report.isvprodid, report.isvsvn, report.debug
    )


def _vm(form: QuoteForm) -> VmIdentity | None:
    """Return the identity of the VM in the parsed quote ``form``, without verification.

    The result is None for the quote of an enclave. Raises ``QuoteRefusedError`` for a VM that no
    package can admit.
    """
    claims = claims_of(form)
    if claims is None:
        return None
    claims.require_sound()
    return claims.identity


def _show_vm(identity: VmIdentity, *, as_json: bool) -> None:
    kind = identity.FIELD
    rows = {f"{kind}.{name}": shown for name, shown in rows_of_vm(identity).items()}
    show_result({kind: identity}, rows | _NOT_VERIFIED, as_json=as_json)


def _package(identity: EnclaveIdentity) -> dict[str, object]:
    return {
        "UniqueID": identity.unique_id.hex(),
        "SignerID": identity.signer_id.hex(),
        "ProductID": identity.product_id,
        "SecurityVersion": identity.security_version,
        "Debug": identity.debug,
    }


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    files = sorted(path.glob("*.sig"))
    if len(files) != 1:
        hint = (
            "pass the path of one of these files"
            if files
            else "pass the file of a signature or a quote"
        )
        raise NoEnclaveError(f"{path} has {len(files)} signatures (*.sig), expected 1", hint=hint)
    return files[0]
