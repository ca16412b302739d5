"""`keyhouse manifest check | convert | signature | schema`: what needs no coordinator."""

import json
import sys
from datetime import UTC, datetime
from typing import Annotated

import click

from keyhouse.base.errors import InvalidError, Problem
from keyhouse.cli.manifest.file import (
    FileArgument,
    NewFileOption,
    SourceArgument,
    open_manifest,
    read_manifest,
)
from keyhouse.cli.output.files import write_output
from keyhouse.cli.output.show import coloured, show_json
from keyhouse.cli.output.source_text import FileInvalidError, as_objects
from keyhouse.cli.parser import REFUSED, AsJson, Option, WrongUsageError, command
from keyhouse.manifest import fingerprint


@command
def check(
    file: SourceArgument,
    *,
    dns_names: Annotated[
        str,
        Option(metavar="NAMES", help="names of the coordinator: certificates may not take them"),
    ] = "localhost",
    as_json: AsJson = False,
) -> None:
    """Check a manifest as the coordinator would.

    It prints all problems at once, with their lines.

    Example: keyhouse manifest check manifest.yaml
    """
    given = open_manifest(str(file))
    try:
        raw = given.raw
        with given.explained():
            warnings = problems_of(raw, dns_names)
    except FileInvalidError as invalid:
        if not as_json:
            raise
        show_json({"valid": False, "problems": as_objects(invalid.problems, invalid.source.places)})
        sys.exit(REFUSED)
    source = given.source
    if as_json:
        found = as_objects(warnings, source.places)
        show_json({"valid": True, "fingerprint": fingerprint(raw), "warnings": found})
        return
    sys.stderr.write(source.show("warning", warnings, colour=coloured(sys.stderr)))
    click.echo(f"valid  {fingerprint(raw)}")


@command
def convert(
    file: SourceArgument,
    output: NewFileOption = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Print the bytes that are uploaded for a manifest.

    Of YAML that is its JSON; JSON stays as it is.

    They are what the coordinator keeps, and what fingerprints and signatures are of. A coordinator
    that sets its manifest at its start (serve --startup-manifest) is given this file.

    Example: keyhouse manifest convert manifest.yaml -o manifest.json
    """
    raw = read_manifest(str(file))
    if output or not as_json:
        write_output(raw, output)
    if as_json:
        kept = {"file": output} if output else {"manifest": raw}
        show_json({"fingerprint": fingerprint(raw), **kept})


@command
def signature(
    file: FileArgument,
    *,
    as_json: AsJson = False,
) -> None:
    """Print the fingerprint of a manifest, in hex.

    It is the SHA-256 of what is uploaded.

    Example: keyhouse manifest signature manifest.json

    That is a JSON file byte for byte, and of a YAML file what manifest convert prints.
    """
    found = fingerprint(read_manifest(str(file)))
    if as_json:
        show_json({"fingerprint": found})
    else:
        click.echo(found)


@command
def schema(*, as_json: AsJson = False) -> None:
    """Print the JSON Schema of a manifest, for editors.

    Example: keyhouse manifest schema > manifest.schema.json
    """
    from keyhouse.manifest.source.schema import manifest_schema

    if as_json:
        show_json(manifest_schema())
        return
    click.echo(json.dumps(manifest_schema(), indent=2, ensure_ascii=False))


def problems_of(raw: bytes, dns_names: str = "localhost") -> tuple[Problem, ...]:
    """Return the warnings of a manifest that a coordinator with these names would accept.

    Raises ``InvalidError`` with every problem of a manifest that it would refuse, and
    ``WrongUsageError`` for invalid names.
    """
    from keyhouse.authority import make_coordinator_keys
    from keyhouse.coordinator import check_fully

    now = datetime.now(UTC)
    names, addresses = _names(dns_names)
    keys = make_coordinator_keys(
        dns_names=names, ip_addresses=addresses, curve="P-256", now=now, simulated=True
    )
    return check_fully(raw, keys=keys, now=now).warnings


def _names(dns_names: str) -> "tuple[tuple[str, ...], tuple[str, ...]]":
    from keyhouse.authority import parse_names

    try:
        return parse_names(dns_names)
    except InvalidError as invalid:  # the fault is in the option, not in the manifest
        first = invalid.problems[0]
        raise WrongUsageError(
            f"entry {first.at} of --dns-names {first.problem}", hint=first.hint
        ) from None
