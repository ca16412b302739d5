"""`keyhouse manifest check | convert | signature | schema`: commands without a coordinator."""

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
from keyhouse.cli.manifest.invisible_characters import invisible_warnings
from keyhouse.cli.output.files import write_output
from keyhouse.cli.output.show import coloured, show_json
from keyhouse.cli.output.source_text import FileInvalidError, as_objects
from keyhouse.cli.parser import REFUSED, AsJson, Option, WrongUsageError, command
from keyhouse.manifest import decode, fingerprint


@command
def check(
    file: SourceArgument,
    *,
    dns_names: Annotated[
        str,
        Option(
            metavar="NAMES", help="names of the coordinator, which certificates must not contain"
        ),
    ] = "localhost",
    portable: Annotated[
        bool,
        Option("--portable", help="refuse keys that other products of the interface do not have"),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a manifest as the coordinator does.

    The command prints all problems with their lines, or the fingerprint of the manifest. It warns
    of invisible characters and of characters that reorder text, with line and code point. With
    --json, each problem has line and column from 1, or null if they are unknown. The command never
    prints a line that may contain the value of a secret (Private).

    With --portable, the command also names each key that other implementations of the interface,
    such as MarbleRun, refuse or ignore. For such a key, the exit code is 1.

    Example: keyhouse manifest check manifest.yaml
    """
    file_read = open_manifest(str(file))
    try:
        raw = file_read.raw
        with file_read.explained():
            warnings = problems_of(raw, dns_names)
    except FileInvalidError as invalid:
        if not as_json:
            raise
        show_json({"valid": False, "problems": as_objects(invalid.problems, invalid.source.places)})
        sys.exit(REFUSED)
    source = file_read.source
    warnings = (*warnings, *invisible_warnings(raw, source))
    unportable = _unportable(raw) if portable else []
    if as_json:
        fields = {"warnings": as_objects(warnings, source.places)}
        if portable:
            fields["unportable"] = as_objects(unportable, source.places)
        show_json({"valid": True, "fingerprint": fingerprint(raw), **fields})
    else:
        colour = coloured(sys.stderr)
        sys.stderr.write(source.show("warning", warnings, colour=colour))
        sys.stderr.write(source.show("error", unportable, colour=colour))
        click.echo(f"{'valid, not portable' if unportable else 'valid'}  {fingerprint(raw)}")
    if unportable:
        sys.exit(REFUSED)


@command
def convert(
    file: SourceArgument,
    output: NewFileOption = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Print the uploaded bytes for a manifest file.

    For a YAML file, the output is JSON. A JSON file is printed unchanged.

    The coordinator stores these bytes. Fingerprints and signatures cover them. The option
    --startup-manifest of keyhouse serve needs a file with this output.

    Example: keyhouse manifest convert manifest.yaml -o manifest.json
    """
    raw = read_manifest(str(file))
    if output or not as_json:
        write_output(raw, output)
    if as_json:
        output_fields = {"file": output} if output else {"manifest": raw}
        show_json({"fingerprint": fingerprint(raw), **output_fields})


@command
def signature(
    file: FileArgument,
    *,
    as_json: AsJson = False,
) -> None:
    """Print the fingerprint of a manifest, in hex.

    The fingerprint is the SHA-256 of the uploaded bytes: of a JSON file byte for byte, or of the
    output of keyhouse manifest convert for a YAML file.

    Example: keyhouse manifest signature manifest.json
    """
    digest = fingerprint(read_manifest(str(file)))
    if as_json:
        show_json({"fingerprint": digest})
    else:
        click.echo(digest)


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
    """Check the manifest ``raw`` as a coordinator does; return the warnings.

    ``dns_names`` are the names of the coordinator, as for `keyhouse serve --dns-names`. Raises
    ``InvalidError`` with every problem of the manifest, and ``WrongUsageError`` for invalid names.
    """
    from keyhouse.authority import make_coordinator_keys
    from keyhouse.coordinator import check_fully

    now = datetime.now(UTC)
    names, addresses = _names(dns_names)
    keys = make_coordinator_keys(
        dns_names=names, ip_addresses=addresses, curve="P-256", now=now, simulated=True
    )
    return check_fully(raw, keys=keys, now=now).warnings


def _unportable(raw: bytes) -> list[Problem]:
    from keyhouse.manifest.source.portable import unportable_keys

    return unportable_keys(decode(raw))


def _names(dns_names: str) -> "tuple[tuple[str, ...], tuple[str, ...]]":
    from keyhouse.authority import parse_names

    try:
        return parse_names(dns_names)
    except InvalidError as invalid:  # the option is invalid, not the manifest
        first = invalid.problems[0]
        raise WrongUsageError(
            f"entry {first.at} of --dns-names {first.problem}", hint=first.hint
        ) from None
