"""The certificates of a coordinator that was verified, in a file: intermediate, then root, PEM."""

import hmac
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from keyhouse.base.durable_files import replace_file
from keyhouse.base.printable import os_reason
from keyhouse.cli.options.context_file import contexts_path
from keyhouse.cli.options.target import Target
from keyhouse.cli.output.new_file import FileUnwritable
from keyhouse.cli.output.talk import read_file
from keyhouse.cli.output.usage import WrongUsage

if TYPE_CHECKING:
    from keyhouse.client import TrustedCoordinator

__all__ = ["chain_pem", "keep", "require_kept", "unpinned"]


def chain_pem(proven: "TrustedCoordinator") -> str:
    """Return the intermediate certificate, then the root."""
    return "".join(
        ssl.DER_cert_to_PEM_cert(der) for der in (proven.intermediate_der, proven.root_der)
    )


def unpinned(target: Target) -> Target:
    """Return ``target`` for a command that renews the kept certificates, not compares them."""
    return msgspec.structs.replace(target, coordinator_cert="")


def keep(proven: "TrustedCoordinator", path: str) -> str:
    """Put the certificates in the place of what is at ``path`` (0600); return where they are.

    "": ``keyhouse/coordinator-cert.pem`` in the user's directory for configuration. Raises
    ``FileUnwritable``.
    """
    default = contexts_path()
    if not path and default is None:
        raise WrongUsage("there is no place for the certificates", hint="--coordinator-cert FILE")
    place = Path(path) if path or default is None else default.with_name("coordinator-cert.pem")
    try:
        if not path:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(place, chain_pem(proven).encode("ascii"))
    except OSError as error:
        raise FileUnwritable(f"cannot write {place}: {os_reason(error)}") from None
    return str(place)


def require_kept(path: str, root_der: bytes) -> None:
    """Return if the last certificate at ``path`` is the root. Raises ``TrustFailed``."""
    from keyhouse.client import TrustFailed

    last = read_file(path).decode("ascii", "replace").rstrip().rpartition("-----BEGIN CERT")[2]
    try:
        kept = ssl.PEM_cert_to_DER_cert(f"-----BEGIN CERT{last}")
    except ValueError:
        raise WrongUsage(f"{path} holds no PEM certificate") from None
    if not hmac.compare_digest(kept, root_der):
        raise TrustFailed(
            f"the coordinator has another root certificate than {path}",
            hint="send nothing: it is another deployment",
        )
