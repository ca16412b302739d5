"""`keyhouse secret get | set`: read and upload secrets as a user."""

import sys
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from keyhouse.cli.options.connect import coordinator_of
from keyhouse.cli.options.context_chosen import context_for, is_of_another
from keyhouse.cli.options.target import Target, TrustOptions
from keyhouse.cli.options.user import User
from keyhouse.cli.output.files import read_file, reading, write_output
from keyhouse.cli.output.show import show_json, show_rows
from keyhouse.cli.parser.command import AsJson, Group, WrongUsageError
from keyhouse.cli.parser.parameters import Argument, Option

if TYPE_CHECKING:
    from keyhouse.client import SecretObject

__all__ = ["app"]

app = Group(help="Read and upload secrets.")


@app.command("get")
def get(
    words: Annotated[
        list[str],
        Argument(metavar="NAME... HOST", help="names of secrets, then the address (see status)"),
    ],
    trusting: TrustOptions,
    user: User,
    output: Annotated[
        str,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="new file (0600) for the JSON object; - for standard output",
        ),
    ] = "",
    *,
    show: Annotated[bool, Option("--show", help="print secrets on a terminal")] = False,
    as_json: AsJson = False,
) -> None:
    """Print secrets that you may read, values in base64: all of them, or none.

    Example: keyhouse secret get apiToken localhost:4433 --cert bob.crt --key bob.key
    --attestation attestation.json --simulation-root root.pem -o secrets.json
    """
    _require_no_watcher(output, show=show)
    names, target = split_words(words, trusting)
    with coordinator_of(target, user) as coordinator:
        found = coordinator.secrets(names)
    secrets = {name: _object(found[name]) for name in dict.fromkeys(names)}
    if output or as_json:
        write_output(msgspec.json.encode({"secrets": secrets}) + b"\n", output)
        return
    for name, values in secrets.items():
        show_rows({"name": name} | {field: _shown(value) for field, value in values.items()})


@app.command("set")
def set_secrets(
    file: Annotated[
        Path, Argument(help='JSON {"name": {"key": base64} ...}, or - for standard input')
    ],
    target: Target,
    user: User,
    from_pem: Annotated[
        str,
        Option(
            "--from-pem",
            metavar="NAME",
            help="FILE is PEM, a certificate with its private key if there is one: set it as NAME",
        ),
    ] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Upload user-defined secrets: all of them, or none.

    Example: keyhouse secret set secrets.json localhost:4433 --cert bob.crt --key bob.key
    --attestation attestation.json --simulation-root root.pem
    """
    from keyhouse.cli.secret_files import read_pem_secret, read_secret_file

    if from_pem:
        uploads = {from_pem: read_pem_secret(read_file(str(file)))}
    else:
        with reading(str(file), is_secret=True) as content:
            uploads = read_secret_file(content)
    with coordinator_of(target, user) as coordinator:
        coordinator.write_secrets(uploads)
    if as_json:
        show_json({"stored": sorted(uploads)})
    else:
        show_rows({"stored": ", ".join(sorted(uploads))})


def split_words(words: list[str], trusting: TrustOptions) -> tuple[list[str], Target]:
    """Return names and coordinator of ``NAME... HOST``.

    In a context that has an address HOST may be left out; then the last word is one only if it
    looks like one: with a colon or a dot, or ``localhost``. Raises ``WrongUsageError`` without a
    name, and for a word that looks like one and is not said to be another coordinator.
    """
    named = context_for(trusting.context)
    last = words[-1]
    is_host = named is None or not named.context.address or _looks_like_address(last)
    names = words[:-1] if is_host and (len(words) > 1 or named is None) else words
    if not names:
        raise WrongUsageError("no secret is named", hint="keyhouse secret get NAME... HOST")
    host = last if len(names) < len(words) else ""
    if named is not None and trusting.attestation is None and is_of_another(named, host):
        raise WrongUsageError(
            f"{host} is taken for an address, and the context {named.name!r} is for"
            f" {named.context.address}",
            hint=f"if it is a secret, name the address, too: keyhouse secret get ... {host}"
            f" {named.context.address}",
        )
    return names, Target.at(host, trusting)


def _looks_like_address(word: str) -> bool:
    return word == "localhost" or ":" in word or "." in word


def _require_no_watcher(output: str, *, show: bool) -> None:
    """Return if secrets may be printed: not on a terminal, where somebody may look on."""
    if sys.stdout.isatty() and not output and not show:
        raise WrongUsageError(
            "secrets are not printed on a terminal",
            hint="-o FILE for a new file, a pipe, or --show to see them here",
        )


def _object(secret: "SecretObject") -> dict[str, object]:
    """Return the fields that a secret has; this is where values leave their ``Secret``."""
    fields: dict[str, object] = {"type": secret.type, "userDefined": secret.user_defined}
    if secret.size:
        fields["size"] = secret.size
    if secret.cert:
        fields["cert"] = secret.cert
    fields["private"] = secret.private.reveal() if secret.private else None
    fields["public"] = secret.public.reveal() if secret.public else None
    return fields


def _shown(value: object) -> str:
    if value is None:
        return "not uploaded yet"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)
