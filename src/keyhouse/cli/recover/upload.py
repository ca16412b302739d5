"""`keyhouse recover upload`: hand in one share, to a coordinator that proved what it is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from keyhouse.base.printable import printable
from keyhouse.cli.options.connect import trusted
from keyhouse.cli.options.holder import Holder
from keyhouse.cli.options.memory import NONE
from keyhouse.cli.options.target import Target
from keyhouse.cli.output.talk import AsJson, show_json, show_rows, speaks
from keyhouse.cli.recover.offer import RootFile, offering
from keyhouse.cli.recover.options import ShareFile, ShareName

if TYPE_CHECKING:
    from keyhouse.client import Offer, Progress, RecoveryKey

__all__ = ["upload"]

_RECOVERED = "recovered: the state is back, under its old root certificate"

SignatureFile = Annotated[
    Path | None,
    typer.Option(
        "--signature",
        "-s",
        metavar="FILE",
        help="signature over the decrypted secret, if the key is not here",
    ),
]


@speaks
def upload(
    file: ShareFile,
    target: Target,
    holder: Holder,
    signature: SignatureFile = None,
    root: RootFile = None,
    name: ShareName = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Verify the coordinator and what it would recover, then hand in one recovery secret.

    Example: keyhouse recover upload recovery.json localhost:4433 --key holder.key --root root.pem
    --attestation attestation.json --simulation-root simulation/root.pem

    It is decrypted and signed with --key, or by a token, or comes with a --signature made
    elsewhere. Without --root nobody compares the deployment with the one that you kept.
    """
    from keyhouse.cli.recover.files import ShareUnreadable, shares_in, signature_in

    shares = shares_in(file)
    signed = signature_in(signature) if signature is not None else None
    with holder.opened(target.context, target.host) as own:
        if own is None and signed is None:
            raise ShareUnreadable("nothing signs the recovery secret", hint="--key or --signature")
        with offering(target, root, warn=True) as (coordinator, offer):
            progress = coordinator.recover(*_prepared(offer, shares, name, own, signed))
    if not progress.remaining:
        _require_recovered(target, offer)
    _show(progress, as_json=as_json)


def _require_recovered(target: Target, offer: "Offer") -> None:
    """Return if the coordinator proves now that it has the root that it had said."""
    from keyhouse.client import TrustFailed

    memory = target.settled().memory
    again = trusted(msgspec.structs.replace(target, memory=_told_once(memory), save_sgx_quote=""))
    if again.root_der != offer.index.root:
        raise TrustFailed("the coordinator recovered under another root than it had said")


def _told_once(memory: str) -> str:
    """Return the option that says where to remember; that there is no place has been told."""
    from keyhouse.cli.options.memory import has_place

    return memory if has_place(memory) else NONE


def _show(progress: "Progress", *, as_json: bool) -> None:
    if as_json:
        show_json({"remaining": progress.remaining, "message": progress.message})
        return
    show_rows(
        {
            "state": _RECOVERED if not progress.remaining else "recovery mode",
            "shares": progress.message,
            "missing": str(progress.remaining),
        }
    )


def _prepared(
    offer: "Offer",
    shares: dict[str, bytes],
    name: str,
    own: "RecoveryKey | None",
    signed: bytes | None,
) -> tuple[bytes, bytes]:
    """Return the share under the ephemeral key, and its signature; nothing unproven is touched."""
    from keyhouse.cli.recover.files import PLAIN_SIZES, chosen, plain_share
    from keyhouse.client import encrypt_share, require_listed, require_signed

    if own is not None:
        listed = require_listed(offer, own.public_key)
        name = name or (listed if listed in shares else "")
        typer.echo(f"your recovery key: {printable(listed)}", err=True)
    secret = chosen(shares, name)
    if own is None and len(secret) not in PLAIN_SIZES and signed is not None:
        return secret, signed  # encrypted to the ephemeral key elsewhere
    share = plain_share(secret, own)
    signature = signed if signed is not None or own is None else own.sign(share)
    assert signature is not None  # noqa: S101 one of both is there
    require_signed(offer, share, signature)
    return encrypt_share(offer.ephemeral_public_key, share), signature
