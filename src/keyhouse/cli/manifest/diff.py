"""`keyhouse manifest diff`: print the differences between two manifests by meaning."""

import re
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import click

from keyhouse.base.errors import RefusedError
from keyhouse.cli.manifest.change_lines import danger_lines, section_lines
from keyhouse.cli.manifest.file import open_manifest
from keyhouse.cli.manifest.offline import problems_of
from keyhouse.cli.options.connect import coordinator_of
from keyhouse.cli.options.target import Target, TrustOptions
from keyhouse.cli.output.show import coloured, show_json
from keyhouse.cli.parser import REFUSED, Argument, AsJson, Option, WrongUsageError, command
from keyhouse.manifest import Manifest, decode, fingerprint
from keyhouse.manifest.diff import Change, diff

_Side = Annotated[
    str,
    Argument(
        metavar="OLD",
        help="manifest file (- for standard input), or HOST: the manifest in force there",
    ),
]
_OtherSide = Annotated[str, Argument(metavar="NEW", help="manifest file, -, or HOST")]
_FILE_NAME: Final = re.compile(r"-|.*/.*|.*\.(json|ya?ml)", re.IGNORECASE | re.DOTALL)


@command
def compare(
    old: _Side,
    new: _OtherSide,
    trusting: TrustOptions,
    *,
    exit_code: Annotated[
        bool,
        Option(
            "--exit-code", help="end with exit code 1 if the manifests differ, as git diff does"
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the differences between two manifests by meaning.

    The output has + for an addition, - for a removal, ~ for a change. An argument is a file if it
    exists, contains a slash, or ends in .json, .yaml or .yml. Any other argument is the address of
    a coordinator. The command verifies this coordinator, and reads its manifest in force.

    Example: keyhouse manifest diff old.json new.yaml
    """

    def manifest_of(side: str) -> Manifest:
        if _FILE_NAME.fullmatch(side) or Path(side).exists():
            return _read_checked(side)
        target = Target.at(side, trusting)
        try:
            expected = target.resolve(required=False).attestation
        except WrongUsageError as error:  # an error of the context
            raise WrongUsageError(
                f"{side} is not a file, and {error.message}", hint=error.hint
            ) from None
        if expected is None:
            raise RefusedError(
                f"{side} is not a file, and no option names the expected identity of a coordinator"
                f" {side}",
                hint="correct the name of the file, or pass --attestation or --context",
            )
        with coordinator_of(target) as coordinator:
            return decode(coordinator.manifest().manifest)

    before, after = manifest_of(old), manifest_of(new)
    changes = diff(before, after)
    if as_json:
        show_json(_object(before, after, changes))
    else:
        _show(before, after, changes)
    if changes and exit_code:
        sys.exit(REFUSED)


def _read_checked(path: str) -> Manifest:
    """Check and return the manifest in the file ``path``. Raises ``FileInvalidError``."""
    source = open_manifest(path)
    raw = source.raw
    with source.explained():
        problems_of(raw)
    return decode(raw)


def _object(before: Manifest, after: Manifest, changes: tuple[Change, ...]) -> dict[str, Any]:
    return {
        "equal": not changes,
        "oldFingerprint": fingerprint(before.raw),
        "newFingerprint": fingerprint(after.raw),
        "changes": changes,
    }


def _show(before: Manifest, after: Manifest, changes: tuple[Change, ...]) -> None:
    from keyhouse.views.difference import losses, signed, summary

    if not changes:
        same = before.raw == after.raw
        words = "equal" if same else "equal in meaning, but the bytes and the fingerprints differ"
        click.echo(words, err=True)
        return
    colour = coloured(sys.stdout)
    lines = [line for each in changes for line in signed(each)]
    for line in (
        *section_lines(lines, colour=colour),
        f"summary: {summary(changes)}",
        *danger_lines(losses(before, after), colour=colour),
    ):
        sys.stdout.write(f"{line}\n")
