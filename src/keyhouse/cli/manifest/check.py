"""`keyhouse manifest check`: every problem of a manifest at once, each where it stands."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from keyhouse.base.errors import Invalid, Problem
from keyhouse.cli.manifest.file import open_manifest
from keyhouse.cli.output.source_problems import SourceText, as_objects
from keyhouse.cli.output.talk import REFUSED, AsJson, show_json, speaks
from keyhouse.cli.output.usage import WrongUsage

__all__ = ["check", "problems_of"]


@speaks
def check(
    file: Annotated[Path, typer.Argument(help="manifest file, JSON or YAML, or - for stdin")],
    *,
    dns_names: Annotated[
        str, typer.Option(help="names of the coordinator: certificates may not take them")
    ] = "localhost",
    as_json: AsJson = False,
) -> None:
    """Check a manifest as the coordinator would: all problems at once, with their lines.

    Example: keyhouse manifest check manifest.yaml
    """
    from keyhouse.manifest import fingerprint

    given = open_manifest(str(file))
    name = "<standard input>" if given.name == "-" else given.name
    source = SourceText(name, given.written, given.places)
    try:
        raw = given.raw
        warnings = problems_of(raw, dns_names)
    except Invalid as invalid:
        _tell_problems(source, invalid, as_json=as_json)
        sys.exit(REFUSED)
    if as_json:
        told = as_objects(warnings, source.places)
        show_json({"valid": True, "fingerprint": fingerprint(raw), "warnings": told})
        return
    sys.stderr.write(source.show("warning", warnings, colour=_colour()))
    typer.echo(f"valid  {fingerprint(raw)}")


def problems_of(raw: bytes, dns_names: str = "localhost") -> tuple[Problem, ...]:
    """Return the warnings of a manifest that a coordinator with these names would take.

    Raises ``Invalid`` with every problem of one that it would not, and ``WrongUsage`` for names
    that are none.
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
    except Invalid as invalid:  # the manifest has nothing to do with it
        first = invalid.problems[0]
        raise WrongUsage(
            f"entry {first.at} of --dns-names {first.problem}", hint=first.hint
        ) from None


def _tell_problems(source: SourceText, invalid: Invalid, *, as_json: bool) -> None:
    if as_json:
        show_json({"valid": False, "problems": as_objects(invalid.problems, source.places)})
        return
    count = len(invalid.problems)
    sys.stderr.write(f"error: {count} problem{'s' if count != 1 else ''}\n")
    sys.stderr.write(source.show("error", invalid.problems, colour=_colour()))


def _colour() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
