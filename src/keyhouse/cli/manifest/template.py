"""`keyhouse manifest template`: a manifest to begin with, which passes the check."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer

from keyhouse.base.errors import Refused
from keyhouse.base.printable import printable
from keyhouse.cli.manifest.check import problems_of
from keyhouse.cli.output.bundles import Bundle
from keyhouse.cli.output.bytes import write_output
from keyhouse.cli.output.talk import AsJson, show_json, speaks

if TYPE_CHECKING:
    from keyhouse.cli.manifest.template_parts import Parts

__all__ = ["template"]

_COMMENTS: Final = {
    "Packages": "Which programs may run, by what their quotes prove.",
    "Marbles": (
        "What runs, and what it gets: files and variables, from templates such as\n"
        '#   web: {Package: app, Parameters: {Env: {TOKEN: "{{ hex .Secrets.token }}"}}}'
    ),
    "Secrets": "What is generated for the workloads, or uploaded by users (UserDefined).",
    "Users": "Who may do what: a user is a certificate.",
    "Roles": "Rights, by exact names.",
    "RecoveryKeys": "Who together can bring a lost state back: as many as there are keys.",
}


class Named(Bundle, frozen=True, kw_only=True):
    """What is to be in the manifest, as it was typed."""

    package: Annotated[
        list[str],
        typer.Option(
            "--package",
            metavar="NAME=ID",
            help="a program: its UniqueID, or signer:HEX,product:N,version:N",
        ),
    ] = msgspec.field(default_factory=list)
    marble: Annotated[
        list[str],
        typer.Option("--marble", metavar="NAME[=PACKAGE]", help="a workload type and its program"),
    ] = msgspec.field(default_factory=list)
    secret: Annotated[
        list[str],
        typer.Option("--secret", metavar="NAME=TYPE[:BITS]", help="such as token=symmetric-key"),
    ] = msgspec.field(default_factory=list)
    user: Annotated[
        list[str],
        typer.Option("--user", metavar="NAME=FILE", help="a user and the certificate (PEM)"),
    ] = msgspec.field(default_factory=list)
    recovery_key: Annotated[
        list[str],
        typer.Option("--recovery-key", metavar="NAME=FILE", help="public RSA key (PEM)"),
    ] = msgspec.field(default_factory=list)

    def parts(self) -> "Parts":
        """Return the parts, asked for on a terminal if none was typed. Raises ``Refused``."""
        from keyhouse.cli.manifest.template_parts import parts_of
        from keyhouse.cli.manifest.template_questions import ask_for_parts

        found = parts_of(self.package, self.marble, self.user, self.secret, self.recovery_key)
        if not found.are_empty:
            return found
        if not sys.stdin.isatty():
            raise Refused(
                "nobody can be asked, and no part is named", hint="--package and --marble, at least"
            )
        return ask_for_parts()


@speaks
def template(
    named: Named,
    form: Annotated[
        Literal["yaml", "json"], typer.Option("--format", help="what to write")
    ] = "yaml",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="new file instead of stdout")
    ] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Write a manifest to begin with. On a terminal, without parts, it asks for them.

    Each part may come several times. Users may update the manifest and write the uploaded secrets
    (plain); the other secrets are generated and shared by the workloads.

    Example: keyhouse manifest template --package app=$UNIQUE_ID --marble web --user alice=alice.pem
    --secret token=symmetric-key -o manifest.yaml
    """
    from keyhouse.cli.manifest.template_parts import starting_manifest

    tree = starting_manifest(named.parts())
    for warning in problems_of(_raw(tree)):
        typer.echo(f"warning: {printable(str(warning))}", err=True)
    if as_json and not output:
        show_json(tree)
        return
    text = _commented(tree) if form == "yaml" else json.dumps(tree, indent=2) + "\n"
    write_output(text.encode(), output)
    if as_json:
        show_json({"file": output})
        return
    file = printable(output) or "FILE"
    typer.echo(f"next: edit it, then keyhouse manifest check {file}", err=True)


def _raw(tree: Mapping[str, Any]) -> bytes:
    from keyhouse.manifest.source.json_source import canonical_json

    try:
        return canonical_json(tree)
    except UnicodeEncodeError:  # of bytes that were typed
        raise Refused("a name is no text", hint="write names in UTF-8") from None


def _commented(tree: Mapping[str, Any]) -> str:
    from keyhouse.manifest.source.yaml_writer import write_yaml

    sections = (f"# {_COMMENTS[name]}\n{write_yaml({name: tree[name]})}" for name in tree)
    return "\n".join(sections)
