"""`keyhouse version`: the version of this program, or of a coordinator; verify a release."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click

from keyhouse.base.errors import RefusedError
from keyhouse.cli.options.target import Target, TrustOptions
from keyhouse.cli.output.show import show_json, show_rows
from keyhouse.cli.parser import Argument, AsJson, Option, command
from keyhouse.cli.parser.usage import WrongUsageError


@command
def version(
    trusting: TrustOptions,
    words: Annotated[
        list[str],
        Argument(
            metavar="HOST|FILE...",
            help="also print the version of the coordinator at this address; with --verify:"
            " SHA256SUMS of a release, or files beside it",
        ),
    ] = [],  # noqa: B006 the parser never changes it
    *,
    verify: Annotated[bool, Option(help="verify files of a release")] = False,
    release_key: Annotated[
        str | None,
        Option(metavar="FILE", help="the public key of releases, for --verify"),
    ] = None,
    without_signature: Annotated[
        bool, Option(help="verify no signature: proves complete transfers only")
    ] = False,
    environment: Annotated[
        str | None,
        Option(metavar="DIR", help="compare the packages in this folder with the wheels"),
    ] = None,
    expect_version: Annotated[
        str | None,
        Option(metavar="TEXT", help="refuse a signature over another version than this"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print versions, and verify a release.

    The version is that of this program. With HOST or --context, the command verifies the
    coordinator, and prints its version, too. With --verify, it verifies files of a release, and
    contacts nobody.

    Example: keyhouse version --verify dist/SHA256SUMS --release-key keyhouse.vkey
    """
    if verify:
        if without_signature == (release_key is not None):
            raise WrongUsageError(
                "--verify needs either --release-key or --without-signature",
                hint="name the published key of releases by --release-key",
            )
        if without_signature and expect_version is not None:
            raise WrongUsageError(
                "--expect-version needs a signature: only the signature states the version",
                hint="name the published key of releases by --release-key",
            )
        _verify(words, release_key, environment, expect_version, as_json=as_json)
        return
    if release_key or environment or without_signature or expect_version:
        raise WrongUsageError("--verify is missing", hint="add --verify and the files")
    if len(words) > 1:
        raise WrongUsageError("more than one HOST is named", hint="name a single address")
    from keyhouse.base.version import VERSION

    rows = {"keyhouse": VERSION}
    host = words[0] if words else ""
    if host or trusting.context:
        rows["coordinator"] = _of_coordinator(Target.at(host, trusting))
    if as_json:
        show_json(rows)
    elif len(rows) == 1:
        click.echo(VERSION)
    else:
        show_rows(rows)


def _verify(
    words: Sequence[str],
    release_key: str | None,
    environment: str | None,
    expect_version: str | None,
    *,
    as_json: bool,
) -> None:
    from keyhouse.base.user_files import read_file
    from keyhouse.cli.release.verify import verify

    # An empty text is not None: an empty variable of a script must not switch a check off.
    raw = read_file(release_key) if release_key is not None else None
    key = raw.decode("utf-8", "replace").strip() if raw is not None else None
    packages = Path(environment) if environment is not None else None
    failed = 0
    shown = []
    for check in verify(map(Path, words), key, packages, expect_version):
        failed += not check.passed
        shown.append({"subject": check.subject, "result": check.result, "passed": check.passed})
        if not as_json:
            click.echo(f"{'ok    ' if check.passed else 'FAILED'}  {check.subject}: {check.result}")
    if as_json:
        show_json({"signed": key is not None, "checks": shown})
    elif key is None:
        click.echo("The signature is NOT verified: these checks also pass for forged files.")
    if failed:
        raise RefusedError(f"{failed} of {len(shown)} checks failed", hint="do not use these files")


def _of_coordinator(target: Target) -> str:
    import msgspec

    from keyhouse.cli.options.connect import coordinator_of

    with coordinator_of(target) as coordinator:
        description = msgspec.json.decode(coordinator.openapi())
    return str(description["info"]["version"])
