"""`keyhouse version`: the version of this program, and of a coordinator."""

from typing import Annotated

import click

from keyhouse.cli.options.target import Target, TrustOptions
from keyhouse.cli.output.show import show_json, show_rows
from keyhouse.cli.parser import Argument, AsJson, command


@command
def version(
    trusting: TrustOptions,
    host: Annotated[
        str,
        Argument(metavar="HOST", help="also print the version of the coordinator at this address"),
    ] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Print the version of this program or a coordinator.

    With HOST or --context, the command verifies the coordinator, and prints its version, too.

    Example: keyhouse version
    """
    from keyhouse.base.version import VERSION

    rows = {"keyhouse": VERSION}
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
