"""`keyhouse manifest plan`: what an update would do, before anybody agrees to it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from keyhouse.cli.manifest.file import read_manifest
from keyhouse.cli.options.connect import coordinator_of
from keyhouse.cli.options.target import Target
from keyhouse.cli.options.user import User
from keyhouse.cli.output.plan import plan_text
from keyhouse.cli.output.talk import AsJson, show_json, speaks

__all__ = ["plan"]


@speaks
def plan(
    file: Annotated[Path, typer.Argument(help="manifest file, or - for standard input")],
    target: Target,
    user: User,
    *,
    as_json: AsJson = False,
) -> None:
    """Print what an update would change, for users who may make it. Nothing is changed.

    Example: keyhouse manifest plan new.json localhost:4433 --cert alice.crt --key alice.key
    --attestation attestation.json --simulation-root root.pem

    The last line is the plan's digest. It stays the same for all who review the update until
    something else would happen; `manifest update apply` and `acknowledge` can be bound to it with
    --expect-plan.
    """
    raw = read_manifest(str(file))
    with coordinator_of(target, user) as coordinator:
        found = coordinator.plan(raw)
    if as_json:
        show_json(found)
    else:
        sys.stdout.write(plan_text(found))
