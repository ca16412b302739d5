"""`keyhouse recover`: restore a state after the loss of its machine, share by share.

The state's key is divided into shares, the recovery secrets. Each share is encrypted to the
recovery key of a holder. A coordinator on a new machine has a temporary root and an ephemeral key
until enough holders have submitted their shares. `upload` sends a share only to a verified
coordinator with an offer for the expected root. With ``--unverified-deployment``, an expected
root is optional.
"""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import msgspec

from keyhouse.base.printable import printable
from keyhouse.cli.options.connect import coordinator_of, verify_target
from keyhouse.cli.options.memory import memory_of
from keyhouse.cli.options.target import Target
from keyhouse.cli.options.user import UserOption
from keyhouse.cli.output.files import write_output
from keyhouse.cli.output.progress_bar import long_work
from keyhouse.cli.output.show import show_json, show_result
from keyhouse.cli.parser import AsJson, CommandGroup, Option, WrongUsageError, command
from keyhouse.cli.recover.options import Holder, OfflineContext, OutputFile, ShareFile, ShareName
from keyhouse.views.visible import listed

if TYPE_CHECKING:
    from keyhouse.client import Coordinator, Offer, Progress, RecoveryKey

_RECOVERED = "recovered: the state is restored under its old root certificate"

RootFile = Annotated[
    Path | None,
    Option(
        "--root",
        help="file with the root certificate of the deployment (PEM): the command sends nothing to"
        " another deployment. Required unless the memory has the deployment at this address",
    ),
]


AnyDeployment = Annotated[
    bool,
    Option(
        "--unverified-deployment",
        help="do not verify which deployment this is: for a recovery without --root and without an"
        " entry in the memory",
    ),
]
SignatureFile = Annotated[
    Path | None,
    Option(
        "--signature",
        "-s",
        help="file with the signature over the decrypted secret, if the key is on another machine",
    ),
]


@command
def upload(
    file: ShareFile,
    target: Target,
    holder: Holder,
    signature: SignatureFile = None,
    root: RootFile = None,
    name: ShareName = "",
    *,
    unverified_deployment: AnyDeployment = False,
    as_json: AsJson = False,
) -> None:
    """Upload a recovery secret.

    The command first verifies the coordinator, and the deployment that the coordinator would
    recover.

    Example: keyhouse recover upload recovery.json localhost:4433 --key holder.key --root root.pem
    --attestation attestation.json --simulation-root simulation/root.pem

    The command decrypts and signs the secret with --key or with a token. If the key is on another
    machine, pass the signature from there with --signature. The deployment must have the
    certificate of --root, or must be the remembered deployment at this address.

    keyhouse recover FILE HOST is the same command.
    """
    from keyhouse.cli.recover.files import ShareUnreadableError, shares_in, signature_in

    shares = shares_in(file)
    signed = signature_in(signature) if signature is not None else None
    with holder.open_key(target.context, target.host) as own:
        if own is None and signed is None:
            raise ShareUnreadableError(
                "the options name no key and no signature for the recovery secret",
                hint="pass --key, --pkcs11-config or --signature",
            )
        with _offer_of(target, root, anyone=unverified_deployment) as (coordinator, offer):
            submission = _submission(offer, shares, name, own, signed)
            with long_work("recovering", quiet=as_json):
                progress = coordinator.recover(*submission)
    if not progress.remaining:
        _require_recovered(target, offer)
    _show(progress, as_json=as_json)


@contextmanager
def _offer_of(
    target: Target, root: Path | None, *, anyone: bool
) -> Iterator["tuple[Coordinator, Offer]"]:
    """Verify the coordinator of ``target``; yield a session, and its offer of a recovery.

    The coordinator's own root is temporary. So the function compares the root in the offer with the
    certificate in the file ``root`` (or ``--coordinator-cert``), and with the memory of this
    address. Raises ``TrustError``, and ``WrongUsageError`` if there is nothing to compare. With
    ``anyone``, a missing certificate and memory are no error.
    """
    from keyhouse.cli.recover.files import certificate
    from keyhouse.client import Coordinator, parse_address, require_remembered, require_root

    file = root or (Path(target.coordinator_cert) if target.coordinator_cert else None)
    expected = certificate(file) if file is not None else None
    settled = target.resolve()
    memory = memory_of(settled.memory)
    remembered = memory.read().root_at(parse_address(settled.host)) if memory else ""
    if expected is None and not remembered and not anyone:
        raise WrongUsageError(
            "the command has no expected deployment: --root is missing, and the memory has no entry"
            " for this address",
            hint="pass --root FILE with its root certificate; if the certificate is lost, pass"
            " --unverified-deployment",
        )
    proven = verify_target(target, known=False)
    with Coordinator(proven, timeout=target.timeouts()) as coordinator:
        offer = coordinator.recovery_offer()
        require_remembered(offer, remembered)
        if expected is not None:
            require_root(offer, expected)
        yield coordinator, offer


def _require_recovered(target: Target, offer: "Offer") -> None:
    """Raise ``TrustError`` unless the recovered coordinator has the root in its ``offer``.

    The function verifies the coordinator of ``target`` again.
    """
    from keyhouse.client import TrustError

    again = verify_target(msgspec.structs.replace(target, save_sgx_quote=""))
    if again.root_der != offer.index.root:
        raise TrustError(
            "the coordinator's root differs from the root of its recovery offer",
            hint="do not send secrets to this coordinator, and ask its operator",
        )


def _show(progress: "Progress", *, as_json: bool) -> None:
    rows = {
        "state": _RECOVERED if not progress.remaining else "recovery mode",
        "shares": progress.message,
        "missing": str(progress.remaining),
    }
    fields = {"remaining": progress.remaining, "message": progress.message}
    show_result(fields, rows, as_json=as_json)


def _submission(
    offer: "Offer",
    shares: dict[str, bytes],
    name: str,
    own: "RecoveryKey | None",
    signed: bytes | None,
) -> tuple[bytes, bytes]:
    """Return an encrypted share for the coordinator of ``offer``, and the holder's signature.

    The share is encrypted to the ephemeral key in the offer. The signature is over the share before
    this encryption. ``shares`` are recovery secrets (encrypted shares), and ``name`` selects a
    secret by the rules of ``select_share``. ``own`` is the holder's key; None: no option names a
    key. ``signed`` is a signature from a different machine; None: no option has a signature.
    """
    from keyhouse.cli.recover.files import PLAIN_SIZES, plain_share, select_share
    from keyhouse.client import encrypt_share, require_listed, require_signed

    if own is not None:
        listed = require_listed(offer, own.public_key)
        name = name or (listed if listed in shares else "")
        click.echo(f"your recovery key: {printable(listed)}", err=True)
    secret = select_share(shares, name)
    if own is None and len(secret) not in PLAIN_SIZES and signed is not None:
        return secret, signed  # encrypted to the ephemeral key elsewhere
    share = plain_share(secret, own)
    signature = signed if signed is not None or own is None else own.sign(share)
    assert signature is not None  # noqa: S101 the caller requires a key or a signature
    require_signed(offer, share, signature)
    return encrypt_share(offer.ephemeral_public_key, share), signature


@command
def public_key(
    target: Target,
    root: RootFile = None,
    output: OutputFile = "",
    *,
    unverified_deployment: AnyDeployment = False,
    as_json: AsJson = False,
) -> None:
    """Print the coordinator's public key for recovery secrets, PEM.

    The command first verifies the coordinator, which must be in recovery mode.

    Example: keyhouse recover public-key localhost:4433 --root root.pem -o coordinator.pub
    --attestation attestation.json --simulation-root simulation/root.pem
    """
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_der_public_key,
    )

    with _offer_of(target, root, anyone=unverified_deployment) as (_, offer):
        pass
    key = load_der_public_key(offer.ephemeral_public_key)
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    if output or not as_json:
        write_output(pem, output)
    if as_json:
        show_json(_object_of(offer, pem.decode("ascii")))
    else:
        click.echo(_needs_text(offer), err=True)


@command
def secrets(
    target: Target, user: UserOption, output: OutputFile = "", *, as_json: AsJson = False
) -> None:
    """Print the encrypted recovery secrets again.

    The output is a JSON object. The user needs the permission UpdateManifest.

    Example: keyhouse recover secrets localhost:4433 --cert admin.pem --key admin.key --attestation
    attestation.json --simulation-root simulation/root.pem
    """
    del as_json  # the output is always JSON
    with coordinator_of(target, user) as coordinator:
        shares = coordinator.recovery_secrets()
    write_output(msgspec.json.encode({"RecoverySecrets": shares}) + b"\n", output)


def _needs_text(offer: "Offer") -> str:
    received = listed(offer.received) or "none"
    keys = listed(sorted(offer.index.keys))
    return f"needed: {offer.index.threshold} shares of {keys}; received: {received}"


def _object_of(offer: "Offer", pem: str) -> dict[str, object]:
    return {
        "publicKey": pem,
        "needed": offer.index.threshold,
        "keys": sorted(offer.index.keys),
        "received": offer.received,
    }


@command
def sign(
    file: ShareFile,
    holder: Holder,
    chosen_in: OfflineContext,
    name: ShareName = "",
    output: OutputFile = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Print the signature over a recovery secret, in base64.

    The command decrypts an encrypted secret first. It needs no network.

    Example: keyhouse recover sign recovery.json --name alice --key alice.key -o alice.signature
    """
    from keyhouse.cli.recover.files import plain_share, select_share, shares_in

    with holder.open_key(chosen_in.context) as own:
        if own is None:
            raise WrongUsageError(
                "the command needs the holder's key", hint="pass --key FILE or --pkcs11-config FILE"
            )
        signature = own.sign(plain_share(select_share(shares_in(file), name), own))
    _write_base64("signature", signature, output, as_json=as_json)


@command
def encrypt(
    file: ShareFile,
    coordinator_pub_key: Annotated[
        Path,
        Option(
            "--coordinator-pub-key",
            help="file with the output of keyhouse recover public-key (PEM)",
        ),
    ],
    holder: Holder,
    chosen_in: OfflineContext,
    name: ShareName = "",
    output: OutputFile = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Encrypt a recovery secret to the coordinator's key.

    The command decrypts an encrypted secret with --key first. It needs no network.

    Example: keyhouse recover encrypt recovery.json --name alice --key alice.key
    --coordinator-pub-key coordinator.pub -o alice.encrypted
    """
    from keyhouse.cli.recover.files import plain_share, public_key, select_share, shares_in
    from keyhouse.client import encrypt_share

    with holder.open_key(chosen_in.context) as own:
        share = plain_share(select_share(shares_in(file), name), own)
    _write_base64(
        "secret", encrypt_share(public_key(coordinator_pub_key), share), output, as_json=as_json
    )


def _write_base64(what: str, content: bytes, output: str, *, as_json: bool) -> None:
    """Write ``content``, a public value, in base64 to the new file ``output``, or for "" print it.

    With ``as_json``, print a JSON object with the text under the key ``what``.
    """
    text = b64encode(content)
    if output or not as_json:
        write_output(text + b"\n", output)
    if as_json:
        show_json({what: text.decode("ascii"), "file": output or None})


class _UploadFirst(CommandGroup):
    """The group `keyhouse recover`, with ``upload`` as its default command.

    So `keyhouse recover FILE HOST` means `keyhouse recover upload FILE HOST`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in {"--help", "-h"}:
            args = ["upload", *args]
        return super().parse_args(ctx, args)


app = _UploadFirst()
app.add_command(upload, "upload")
app.add_command(public_key, "public-key")
app.add_command(sign, "sign")
app.add_command(encrypt, "encrypt")
app.add_command(secrets, "secrets")
app.add_alias(sign, "sign-secret")
app.add_alias(encrypt, "encrypt-secret")

with_signature_app = _UploadFirst(
    help="Do the same as recover, with the names of the interface's usual tool."
)
with_signature_app.add_command(upload, "upload")
with_signature_app.add_command(public_key, "public-key")
with_signature_app.add_command(encrypt, "encrypt-secret")
with_signature_app.add_command(sign, "sign-secret")
