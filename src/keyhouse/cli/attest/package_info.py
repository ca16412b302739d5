"""`keyhouse package-info`: the identity of a signed enclave, as a manifest wants it."""

from pathlib import Path
from typing import Annotated

import typer

from keyhouse.base.errors import Refused
from keyhouse.cli.attest.sigstruct import Signed, read_sigstruct
from keyhouse.cli.output.talk import AsJson, read_file, show_json, show_rows, speaks

__all__ = ["package_info"]


class NoEnclave(Refused):
    """There is no signed enclave at the path."""

    code = "no-enclave"


@speaks
def package_info(
    path: Annotated[
        Path,
        typer.Argument(help="the enclave's signature (SIGSTRUCT, .sig), or the directory it is in"),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Print the identity of a signed enclave: what a manifest names as a package.

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
        raise NoEnclave(
            f"{path} has {len(found)} signatures (*.sig)", hint="name the one that is meant"
        )
    return found[0]
