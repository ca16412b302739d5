"""Sign SHA256SUMS with Sigstore, and verify the bundle with the steps of a user.

The program ``sigstore`` (sigstore-python) signs and verifies. It contacts Sigstore's services and
the provider of the identity. Every failure ends the release.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from keyhouse.cli.release.sums import BUNDLE, SUMS

_PROGRAM: Final = "sigstore"


class Sigstore(NamedTuple):
    """The signing identity, and the provider (an OIDC issuer) that confirms the identity."""

    identity: str
    issuer: str


def sigstore_hindrance() -> str:
    """Return the reason that this machine cannot sign with Sigstore, or an empty text."""
    return "" if shutil.which(_PROGRAM) else f"the program {_PROGRAM} is not installed"


def sign_with_sigstore(folder: Path, expected: Sigstore) -> None:
    """Write a bundle over ``SHA256SUMS`` by the ``expected`` identity.

    ``sigstore`` detects the identity of the caller, or requests a login in a browser. Raises
    ``RuntimeError`` if there is no bundle, or if the bundle has a different identity.
    """
    bundle, sums = folder / BUNDLE, folder / SUMS
    _run("sign", "--bundle", bundle, sums)
    if not bundle.is_file():
        raise RuntimeError(f"{_PROGRAM} sign ended with 0 and wrote no bundle")
    identity = ("--cert-identity", expected.identity, "--cert-oidc-issuer", expected.issuer)
    _run("verify", "identity", "--bundle", bundle, *identity, sums)


def _run(step: str, *words: object) -> None:
    command = [_PROGRAM, step, *(str(word) for word in words)]
    ended = subprocess.run(command, check=False)  # noqa: S603 fixed words
    if ended.returncode:
        raise RuntimeError(
            f"the release has no Sigstore bundle: {_PROGRAM} {step} ended with {ended.returncode},"
            " with its message above. Repeat the release where Sigstore's services are reachable,"
            " or sign with --key alone"
        )
