"""`keyhouse version`: the version of this program, or of a coordinator; verify a release."""

from typing import Annotated

import click

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
        bool, Option(help="verify no signature: this proves only that the files are complete")
    ] = False,
    environment: Annotated[
        str | None,
        Option(metavar="DIR", help="compare the packages in this folder with the release's wheels"),
    ] = None,
    expect_version: Annotated[
        str | None,
        Option(metavar="TEXT", help="refuse a signature over a different version"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print versions, and verify a release.

    The command prints the version of this program. With HOST or --context, it also verifies the
    coordinator, and prints the version of the coordinator. With --verify, it only verifies files of
    a release, without a network.

    Example: keyhouse version --verify dist/SHA256SUMS --release-key keyhouse.vkey
    """
    from keyhouse.cli.release.options import ReleaseOptions, verify_release

    release = ReleaseOptions(
        release_key=release_key,
        without_signature=without_signature,
        environment=environment,
        expect_version=expect_version,
    )
    if verify:
        release.check()
        verify_release(words, release, as_json=as_json)
        return
    release.refuse()
    if len(words) > 1:
        raise WrongUsageError(
            "the command line has more than one HOST", hint="pass a single address"
        )
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


def _of_coordinator(target: Target) -> str:
    import msgspec

    from keyhouse.cli.options.connect import coordinator_of

    with coordinator_of(target) as coordinator:
        description = msgspec.json.decode(coordinator.openapi())
    return str(description["info"]["version"])
