"""Check that this machine can make every demanded output, before the first build.

An option for an output is a demand. If this machine cannot make a demanded output, the release
fails early and without outputs. The notes list all further outputs that this machine cannot make.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from releasing.build import image_hindrance, runtime_hindrance
from releasing.measurement import Enclave, enclave_hindrance
from releasing.sign import read_key
from releasing.sigstore import Sigstore, sigstore_hindrance

_BITS: Final = 3072
_EXPONENT: Final = 3
_MOST_SECURITY_VERSION: Final = 0xFFFF
_BY_DIGEST: Final = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")


class Demands(NamedTuple):
    """The options for outputs. An empty value demands nothing."""

    key: Path | None
    sigstore: Sigstore | None
    enclave: Enclave
    python_image: str
    python: tuple[int, int]

    def require(self) -> None:
        """Raise ``ValueError`` or ``OSError`` if this machine cannot fulfil an option."""
        if self.key is not None:
            read_key(self.key)
        if self.sigstore is not None:
            _require_none("--sigstore", sigstore_hindrance())
        if self.enclave.key is not None:
            hindrance = enclave_hindrance() or runtime_hindrance(self.python)
            _require_none("--enclave-key", hindrance)
            require_enclave_key(self.enclave.key)
        if not 1 <= self.enclave.security_version <= _MOST_SECURITY_VERSION:
            raise ValueError(
                f"--isv-svn is {self.enclave.security_version}; use 1 to {_MOST_SECURITY_VERSION}"
            )
        if self.python_image:
            _require_none("--python-image", image_hindrance())
            if not _BY_DIGEST.fullmatch(self.python_image):
                raise ValueError(
                    f"--python-image is {self.python_image!r}; name the base by its digest:"
                    " NAME@sha256:DIGEST"
                )


def _require_none(option: str, hindrance: str) -> None:
    if hindrance:
        raise ValueError(f"{option} cannot be met: {hindrance}")


def require_enclave_key(file: Path) -> None:
    """Raise ``ValueError`` if SGX does not accept the key in ``file``: RSA 3072, exponent 3."""
    key = load_pem_private_key(file.read_bytes(), None)
    if (
        not isinstance(key, RSAPrivateKey)
        or key.key_size != _BITS
        or key.public_key().public_numbers().e != _EXPONENT
    ):
        raise ValueError(
            f"{file} is not an RSA key of {_BITS} bits with the exponent {_EXPONENT};"
            f" make a key: openssl genrsa -{_EXPONENT} -out signing-key.pem {_BITS}"
        )
