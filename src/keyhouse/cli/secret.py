"""`keyhouse secret get | set | list`: read and upload secrets as a user."""

import os
import sys
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.base.pem import certificate_pem, private_key_pem
from keyhouse.base.printable import printable, quoted
from keyhouse.base.secret import Secret
from keyhouse.base.user_files import FileUnreadableError, read_file
from keyhouse.cli.manifest.file import names_of
from keyhouse.cli.options.connect import coordinator_of
from keyhouse.cli.options.context_option import context_for, is_of_another
from keyhouse.cli.options.no_coordinator import no_coordinator
from keyhouse.cli.options.target import Target, TrustOptions
from keyhouse.cli.options.token import password_for
from keyhouse.cli.options.user import UserOption
from keyhouse.cli.output.files import reading, write_output
from keyhouse.cli.output.progress_bar import long_work
from keyhouse.cli.output.show import show_json, show_result, show_rows, show_table
from keyhouse.cli.parser import Argument, AsJson, CommandGroup, Option, OptionGroup, WrongUsageError
from keyhouse.manifest import decode
from keyhouse.views.visible import listed

if TYPE_CHECKING:
    from keyhouse.client import Coordinator, SecretObject
    from keyhouse.views.secrets import DescribedSecret


_UPLOAD = "upload a value with keyhouse secret set"


def raw_value(name: str, secret: "SecretObject", *, to_terminal: bool) -> bytes:
    """Return the bytes of the secret ``name`` for ``--raw``.

    For a certificate, the result is its PEM, then its private key as PEM. Raises ``RefusedError``
    for a missing value, and with ``to_terminal`` also for binary data.
    """
    if secret.private is None and not secret.cert:
        raise RefusedError(f"secret {quoted(name)} has no value yet", hint=_UPLOAD)
    value = secret.private.reveal() if secret.private else b""
    if secret.cert:
        key = private_key_pem(secret.private) if secret.private else ""
        return (certificate_pem(secret.cert) + key).encode()
    if to_terminal and not _is_text(value.removesuffix(b"\n")):
        raise RefusedError(
            f"secret {quoted(name)} is binary, and a terminal cannot show it",
            hint="pass -o FILE for a new file, or use a pipe",
        )
    return value


def shown_values(fields: Mapping[str, object]) -> dict[str, str]:
    """Return a secret's ``fields``, from its JSON object, as rows for people.

    Equal private and public values become a single row, ``value`` or ``base64``.
    """
    rows = {name: _as_text(value) for name, value in fields.items()}
    private, public = fields.get("private"), fields.get("public")
    if "cert" in fields or private != public:
        return rows
    del rows["private"], rows["public"]
    if isinstance(private, bytes) and not _is_text(private):
        return {**rows, "base64": _as_text(private)}
    return {**rows, "value": private.decode() if isinstance(private, bytes) else _as_text(private)}


def _is_text(value: bytes) -> bool:
    try:
        return value.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _as_text(value: object) -> str:
    if value is None:
        return "not uploaded yet"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


app = CommandGroup()


Output = Annotated[
    str,
    Option(
        "--output",
        "-o",
        metavar="FILE",
        help="new file (0600) for the JSON object; - for standard output",
    ),
]


@app.command("get")
def get(
    words: Annotated[
        list[str],
        Argument(
            metavar="NAME... HOST",
            complete=names_of("Secrets"),
            help="names of secrets, then the address of the Client API. With a context, the last"
            " word is the address only if it has a dot or a colon, or is localhost; write a secret"
            " with such a name before HOST",
        ),
    ],
    trusting: TrustOptions,
    user: UserOption,
    output: Output = "",
    *,
    show: Annotated[
        bool,
        Option(
            "--show", help="print secrets on a terminal; without this option, the command refuses"
        ),
    ] = False,
    raw: Annotated[
        bool,
        Option(
            "--raw",
            help="print exactly the bytes of a single secret, a certificate as PEM"
            " with its key; binary values need -o or a pipe",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print secrets that you may read: all of them, or none.

    Example: keyhouse secret get apiToken localhost:4433 --cert bob.crt --key bob.key --attestation
    attestation.json --simulation-root root.pem -o secrets.json

    With -o or --json, the output is a JSON object with values in base64. With --raw, the output is
    the value alone.
    """
    names, target = split_words(words, trusting)
    _require_no_watcher(output, show=show)
    if raw and (as_json or len(set(names)) > 1):
        raise WrongUsageError(
            "--raw prints a single secret, and not as JSON",
            hint="omit --raw, or pass a single name without --json",
        )
    with coordinator_of(target, user) as coordinator, _naming_unknown_secrets(coordinator, names):
        secrets_by_name = coordinator.secrets(names)
    if raw:
        write_output(
            raw_value(names[0], secrets_by_name[names[0]], to_terminal=_is_shown(output)), output
        )
        return
    secrets = {name: _object(secrets_by_name[name]) for name in dict.fromkeys(names)}
    if output or as_json:
        write_output(msgspec.json.encode({"secrets": secrets}) + b"\n", output)
        return
    for name, values in secrets.items():
        show_rows({"name": name} | shown_values(values))


class SingleSecret(OptionGroup, frozen=True, kw_only=True):
    """The options for the value of a single secret, in place of a JSON file with secrets."""

    from_pem: Annotated[
        str,
        Option(
            "--from-pem",
            metavar="NAME",
            complete=names_of("Secrets"),
            help="FILE is a PEM certificate, optionally with its private key: set it as NAME",
        ),
    ] = ""
    from_file: Annotated[
        str,
        Option("--from-file", metavar="FILE", help="set the secret NAME to the bytes of this file"),
    ] = ""
    value: Annotated[
        str,
        Option(
            "--value",
            metavar="-",
            help="-: set NAME to the bytes of standard input (on a terminal, the command asks)",
        ),
    ] = ""

    def read_value(self, name: str) -> Secret | None:
        """Return the value of the secret ``name`` from a file, standard input or the terminal.

        None means that the options name no value, because a JSON or PEM file has the value. Raises
        ``WrongUsageError`` and ``FileUnreadableError``.
        """
        if sum(map(bool, (self.from_pem, self.from_file, self.value))) > 1:
            raise WrongUsageError(
                "two options name the value of the secret",
                hint="pass only one of --from-file, --value and --from-pem",
            )
        if self.value not in {"", "-"}:
            raise WrongUsageError(
                "--value accepts only -, because other users of the machine see command lines",
                hint="pass --value - for standard input, or --from-file FILE",
            )
        if self.from_file:
            return Secret(read_file(self.from_file))
        if not self.value:
            return None
        if not sys.stdin.isatty():
            piped = read_file("-")
            if piped.endswith(b"\n"):
                sys.stderr.write(
                    "warning: the value ends with a line end, which is stored, too; printf writes"
                    " none\n"
                )
            return Secret(piped)
        typed = password_for(f"value of {printable(name)}", None)
        if typed is None:
            raise WrongUsageError(
                "the typed value is empty", hint="type a value, or pass --from-file FILE"
            )
        return typed


@app.command("set")
def set_secrets(
    file: Annotated[
        str,
        Argument(
            metavar="FILE|NAME",
            complete=names_of("Secrets"),
            help='JSON file {"name": {"key": base64} ...}; - for standard input; with --from-file'
            " or --value, the name of a single secret",
        ),
    ],
    target: Target,
    user: UserOption,
    single: SingleSecret,
    *,
    as_json: AsJson = False,
) -> None:
    """Upload user-defined secrets: all of them, or none.

    Example: keyhouse secret set apiToken localhost:4433 --from-file token.txt --cert bob.crt --key
    bob.key --attestation attestation.json --simulation-root root.pem

    A single secret receives exactly the given bytes, including a line end. A certificate is PEM,
    with its private key. The JSON file of several secrets is {"name": {"key": base64}}. For a
    certificate, the fields are cert, private and public (DER or PEM, in base64).
    """
    from keyhouse.views.secrets import read_pem_secret, read_secret_file, upload_of

    value = single.read_value(file)
    uploads = {}
    if single.from_pem:
        uploads = {single.from_pem: read_pem_secret(read_file(file))}
    elif value is None:
        _require_file(file)
        with reading(file, is_secret=True) as content:
            uploads = read_secret_file(content)
    with coordinator_of(target, user) as coordinator:
        if value is not None:
            uploads = {file: upload_of(file, value, decode(coordinator.manifest().manifest))}
        storing = long_work("storing secrets", quiet=as_json, at_once=False)
        with _naming_unknown_secrets(coordinator, uploads), storing:
            coordinator.write_secrets(uploads)
    stored = sorted(uploads)
    show_result({"stored": stored}, {"stored": listed(stored)}, as_json=as_json)


@app.command("list")
def list_secrets(target: Target, *, as_json: AsJson = False) -> None:
    """List the secrets of the manifest in force.

    The list has the types of the secrets, the origin of their values, and the users who may read
    and write them.

    Example: keyhouse secret list localhost:4433 --attestation attestation.json --simulation-root
    root.pem
    """
    from keyhouse.views.secrets import described_secrets

    with coordinator_of(target) as coordinator:
        descriptions = described_secrets(decode(coordinator.manifest().manifest))
        uploads = () if as_json else _uploads(coordinator)
    if as_json:
        show_json({"secrets": descriptions})
        return
    head = ("name", "type", "value", "readers", "writers")
    rows = [
        (
            *(each.name, each.type, _source_of(each, uploads)),
            *(listed(each.readers), listed(each.writers)),
        )
        for each in descriptions
    ]
    show_table(head, rows)


def _uploads(coordinator: "Coordinator") -> Collection[str]:
    """Return the names of the secrets with an upload by a user, from the update log."""
    entries = (msgspec.json.decode(each.text) for each in coordinator.update_log())
    return {entry["secret"] for entry in entries if "secret" in entry}


def _source_of(described: "DescribedSecret", uploads: Collection[str]) -> str:
    if described.value != "uploaded":
        return described.value
    return "by users" if described.name in uploads else "by users, no upload yet"


def split_words(words: list[str], trusting: TrustOptions) -> tuple[list[str], Target]:
    """Return the names and the coordinator in ``words``, the arguments ``NAME... HOST``.

    ``trusting`` has the context. If the context has an address, HOST is optional. Then the last
    word is an address only if it contains a colon or a dot, or is ``localhost``. Without a context,
    the last word is the address. If no option names an expected identity, the last word must have
    the form of an address also without a context.

    Raises ``WrongUsageError`` without a name or a coordinator. Also raises it for an address that
    differs from the context's address, unless an option names the expected identity.
    """
    context = context_for(trusting.context)
    last = words[-1]
    is_host = context is None or not context.context.address or _looks_like_address(last)
    names = words[:-1] if is_host and (len(words) > 1 or context is None) else words
    if context is None and not _looks_like_address(last) and trusting.attestation is None:
        # All words are names: this error must precede the errors about the other options.
        raise no_coordinator(trusting.context)
    if not names:
        raise WrongUsageError(
            "the command line has no name of a secret",
            hint="pass the names before the address: keyhouse secret get NAME... HOST",
        )
    host = last if len(names) < len(words) else ""
    if context is not None and trusting.attestation is None and is_of_another(context, host):
        raise WrongUsageError(
            f"{host} looks like an address, but the context {context.name!r} has the address"
            f" {context.context.address}",
            hint=f"if {host} is a secret, add the address: keyhouse secret get ... {host}"
            f" {context.context.address}",
        )
    return names, Target.at(host, trusting)


def _require_file(file: str) -> None:
    """Raise an error with advice if ``file`` is missing and may be the name of a secret.

    This is ``FileUnreadableError``, or ``WrongUsageError`` for ``NAME=VALUE``.
    """
    if file == "-" or "/" in file or os.path.lexists(file):
        return
    name, equals, _ = file.partition("=")
    if equals:
        raise WrongUsageError(
            "the command line has the value of a secret, which all users of this machine can see",
            hint="pass the value through a pipe: printf %s VALUE | keyhouse secret set"
            f" {printable(name)} --value -",
        )
    if "." not in file:
        raise FileUnreadableError(
            f"cannot read {file}: no such file or directory",
            hint=f"if {quoted(file)} is a secret, add --value - or --from-file FILE",
        )


def _looks_like_address(word: str) -> bool:
    return word == "localhost" or ":" in word or "." in word


def _is_shown(output: str) -> bool:
    return sys.stdout.isatty() and output in {"", "-"}


def _require_no_watcher(output: str, *, show: bool) -> None:
    """Raise ``WrongUsageError`` if the command would print secrets on a terminal.

    ``output`` is the value of ``--output``. With ``show`` (``--show``), the user permits the output
    on a terminal.
    """
    if sys.stdout.isatty() and not output and not show:
        raise WrongUsageError(
            "the command does not print secrets on a terminal",
            hint="pass -o FILE for a new file, use a pipe, or pass --show to print them here",
        )


def _object(secret: "SecretObject") -> dict[str, object]:
    """Return the fields of ``secret`` for the output, with the values as plain bytes."""
    fields: dict[str, object] = {"type": secret.type, "userDefined": secret.user_defined}
    if secret.size:
        fields["size"] = secret.size
    if secret.cert:
        fields["cert"] = secret.cert
    fields["private"] = secret.private.reveal() if secret.private else None
    fields["public"] = secret.public.reveal() if secret.public else None
    return fields


@contextmanager
def _naming_unknown_secrets(coordinator: "Coordinator", names: Iterable[str]) -> Iterator[None]:
    """Name the first unknown secret of ``names`` if the coordinator refuses a call of the block.

    The coordinator answers "forbidden" for an unknown name. The function reads the manifest in
    force, and raises ``NotFoundError`` in place of this refusal.
    """
    from keyhouse.client import CallRefusedError
    from keyhouse.views.secrets import unknown_secret

    try:
        yield
    except CallRefusedError as refused:
        if refused.reason != "forbidden":
            raise
        manifest = decode(coordinator.manifest().manifest)
        unknown = next((name for name in names if name not in manifest.secrets), None)
        if unknown is None:
            raise
        raise unknown_secret(unknown, manifest.secrets) from refused
