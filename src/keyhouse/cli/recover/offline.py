"""`keyhouse recover sign` and `encrypt`: what a share holder does without a network."""

from base64 import b64encode
from pathlib import Path
from typing import Annotated

from keyhouse.cli.output.files import write_output
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser.command import AsJson, command
from keyhouse.cli.parser.parameters import Option
from keyhouse.cli.parser.usage import WrongUsageError
from keyhouse.cli.recover.options import Holder, OfflineContext, OutputFile, ShareFile, ShareName


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

    The secret is decrypted first if it is encrypted.

    Example: keyhouse recover sign recovery.json --name alice --key alice.key -o alice.signature
    """
    from keyhouse.cli.recover.files import chosen, plain_share, shares_in

    with holder.opened(chosen_in.context) as own:
        if own is None:
            raise WrongUsageError(
                "no key: pass --key or --pkcs11-config", hint="--key FILE, or --pkcs11-config FILE"
            )
        signature = own.sign(plain_share(chosen(shares_in(file), name), own))
    _give("signature", signature, output, as_json=as_json)


@command
def encrypt(
    file: ShareFile,
    coordinator_pub_key: Annotated[
        Path, Option("--coordinator-pub-key", help="the key of `keyhouse recover public-key` (PEM)")
    ],
    holder: Holder,
    chosen_in: OfflineContext,
    name: ShareName = "",
    output: OutputFile = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Encrypt a recovery secret to the coordinator.

    It is decrypted with --key first if it is encrypted.

    Example: keyhouse recover encrypt recovery.json --name alice --key alice.key
    --coordinator-pub-key coordinator.pub -o alice.encrypted
    """
    from keyhouse.cli.recover.files import chosen, plain_share, public_key, shares_in
    from keyhouse.client import encrypt_share

    with holder.opened(chosen_in.context) as own:
        share = plain_share(chosen(shares_in(file), name), own)
    _give("secret", encrypt_share(public_key(coordinator_pub_key), share), output, as_json=as_json)


def _give(what: str, content: bytes, output: str, *, as_json: bool) -> None:
    """Write ``content``, which is not secret, in base64: to the file ``output``, or print it."""
    text = b64encode(content)
    if output or not as_json:
        write_output(text + b"\n", output)
    if as_json:
        show_json({what: text.decode("ascii"), "file": output or None})
