"""`keyhouse manifest template`: write a first manifest, which passes the check."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import click
import msgspec

from keyhouse.base.errors import KeyhouseError, RefusedError
from keyhouse.base.printable import printable
from keyhouse.base.process.error_text import error_text
from keyhouse.cli.manifest.file import NewFileOption
from keyhouse.cli.manifest.offline import problems_of
from keyhouse.cli.manifest.template_parts import (
    Parts,
    package_of,
    parts_of,
    pem_of,
    secret_of,
    starting_manifest,
)
from keyhouse.cli.output.files import write_output
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser import AsJson, Option, OptionGroup, command
from keyhouse.manifest.source.json_source import canonical_json

T = TypeVar("T")

_COMMENTS: Final = {
    "Packages": "Programs that may run, by the identity in their quotes.",
    "Marbles": (
        "Types of workloads, with their files and variables from templates such as\n"
        '#   web: {Package: app, Parameters: {Env: {TOKEN: "{{ hex .Secrets.token }}"}}}'
    ),
    "Secrets": "Secrets that are generated for the workloads, or uploaded by users (UserDefined).",
    "Users": "Users with their certificates and roles.",
    "Roles": "Permissions for resources, by exact names.",
    "RecoveryKeys": "Holders who together can restore a lost state: all of them are needed.",
}


class PartOptions(OptionGroup, frozen=True, kw_only=True):
    """The options of `keyhouse manifest template`: each names a part of the new manifest."""

    package: Annotated[
        list[str],
        Option(
            "--package",
            metavar="NAME=ID",
            help="a program and its identity: UniqueID, or signer:HEX,product:N,version:N",
        ),
    ] = msgspec.field(default_factory=list)
    marble: Annotated[
        list[str],
        Option(
            "--marble",
            metavar="NAME[=PACKAGE]",
            help="a marble type and its package (PACKAGE is optional with a single --package)",
        ),
    ] = msgspec.field(default_factory=list)
    secret: Annotated[
        list[str],
        Option(
            "--secret",
            metavar="NAME=TYPE[:BITS]",
            help="a secret and its type, for example token=symmetric-key",
        ),
    ] = msgspec.field(default_factory=list)
    user: Annotated[
        list[str],
        Option(
            "--user", metavar="NAME=FILE", help="a user and the file with the certificate (PEM)"
        ),
    ] = msgspec.field(default_factory=list)
    recovery_key: Annotated[
        list[str],
        Option(
            "--recovery-key",
            metavar="NAME=FILE",
            help="a holder and the file with the public RSA key (PEM)",
        ),
    ] = msgspec.field(default_factory=list)

    def parts(self) -> Parts:
        """Return the parts of the manifest, from the options or else from answers on a terminal.

        Raises ``RefusedError`` for an invalid option, and without options and terminal.
        """
        parts = parts_of(self.package, self.marble, self.user, self.secret, self.recovery_key)
        if not parts.are_empty:
            return parts
        if not sys.stdin.isatty():
            raise RefusedError(
                "no option names a part of the manifest, and standard input is not a terminal",
                hint="pass at least --package and --marble",
            )
        return _ask_for_parts()


@command
def template(
    options: PartOptions,
    form: Annotated[
        Literal["yaml", "json"], Option("--format", help="format of the output")
    ] = "yaml",
    output: NewFileOption = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Write a first manifest.

    Repeat an option for several packages, marbles, secrets, users or keys. On a terminal without
    any of these options, the command asks for each part.

    In the written manifest, users may update the manifest and upload the plain secrets. The
    coordinator generates all other secrets, and the workloads share them. The result passes
    keyhouse manifest check.

    Example: keyhouse manifest template --package app=$UNIQUE_ID --marble web --user alice=alice.pem
    --secret token=symmetric-key -o manifest.yaml
    """
    tree = starting_manifest(options.parts())
    for warning in problems_of(_raw(tree)):
        click.echo(f"warning: {printable(str(warning))}", err=True)
    if as_json and not output:
        show_json(tree)
        return
    text = _with_comments(tree) if form == "yaml" else json.dumps(tree, indent=2) + "\n"
    write_output(text.encode(), output)
    if as_json:
        show_json({"file": output})
        return
    file = printable(output) or "FILE"
    click.echo(f"next: edit the manifest, then keyhouse manifest check {file}", err=True)


def _raw(tree: Mapping[str, Any]) -> bytes:
    try:
        return canonical_json(tree)
    except UnicodeEncodeError:  # a name on the command line is not UTF-8
        raise RefusedError(
            "a name is not UTF-8", hint="write the names of all parts in UTF-8"
        ) from None


def _with_comments(tree: Mapping[str, Any]) -> str:
    from keyhouse.manifest.source.yaml_text import write_yaml

    sections = (f"# {_COMMENTS[name]}\n{write_yaml({name: tree[name]})}" for name in tree)
    return "\n".join(sections)


def _ask_for_parts() -> Parts:
    """Ask for the parts of the manifest on standard error; return the parts from the answers.

    The function repeats a question after an invalid answer.
    """
    package = _ask("Package: a name for the program that may run", "app")
    identity = _ask_until_valid("Its UniqueID (64 hex digits; empty: by its signer)", _identity)
    parts = Parts(packages={package: identity})
    while name := _ask(
        "Marble: a name for a workload type that runs it" if not parts.marbles else "Another one",
        "web" if not parts.marbles else "",
    ):
        parts.marbles[name] = package
    _each(parts.secrets, "Secret", "Its type", secret_of, "symmetric-key")
    _each(
        parts.users, "User", "File with the certificate", lambda path: pem_of(path, "CERTIFICATE")
    )
    _each(
        parts.recovery_keys,
        "Holder of a recovery key",
        "File with the public RSA key",
        lambda path: pem_of(path, "PUBLIC KEY"),
    )
    return parts


def _each(
    entries: dict[str, T], what: str, question: str, read: Callable[[str], T], default: str = ""
) -> None:
    """Ask for a name and its value, until a name is empty; store each value in ``entries``.

    ``what`` is the word for such elements of the manifest, such as "Secret". ``question`` asks for
    the value, ``read`` parses the answer, and ``default`` is the default answer. The function
    repeats ``question`` after an invalid answer.
    """
    while name := _ask(f"{what}: a name (empty: no more)", ""):
        entries[name] = _ask_until_valid(f"  {question}", read, default)


def _identity(answer: str) -> dict[str, Any]:
    if answer:
        return package_of(answer)
    signer = _ask("  SignerID (64 hex digits)", "")
    product, version = _ask("  ProductID", "1"), _ask("  SecurityVersion, at least", "1")
    return package_of(f"signer:{signer},product:{product},version:{version}")


def _ask_until_valid(question: str, read: Callable[[str], T], default: str = "") -> T:
    while True:
        try:
            return read(_ask(question, default))
        except KeyhouseError as error:
            click.echo(error_text(error), err=True, nl=False)


def _ask(question: str, default: str) -> str:
    answer: str = click.prompt(question, default=default, show_default=bool(default), err=True)
    return answer.strip()
