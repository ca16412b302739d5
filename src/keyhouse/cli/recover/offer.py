"""What a coordinator in recovery mode offers, once it is sure which deployment it is to become."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keyhouse.cli.options.connect import trusted
from keyhouse.cli.options.memory import memory_of
from keyhouse.cli.options.target import Target

if TYPE_CHECKING:
    from keyhouse.client import Coordinator, Offer

__all__ = ["RootFile", "offering"]

RootFile = Annotated[
    Path | None,
    typer.Option("--root", metavar="FILE", help="root certificate of the deployment (PEM)"),
]


@contextmanager
def offering(
    target: Target, root: Path | None, *, warn: bool = False
) -> Iterator["tuple[Coordinator, Offer]"]:
    """Give a session with the coordinator and its offer, which is for the deployment that is known.

    It is compared with the certificate in ``root`` (or ``--coordinator-cert``) and with what is
    remembered at the address; the coordinator's own root is a temporary one. ``warn``: say if
    there is no certificate. Raises ``TrustFailed``.
    """
    from keyhouse.cli.recover.files import certificate
    from keyhouse.client import Coordinator, require_remembered, require_root

    kept_in = root or (Path(target.coordinator_cert) if target.coordinator_cert else None)
    kept = certificate(kept_in) if kept_in is not None else None
    remembering = memory_of(target.settled().memory)
    proven = trusted(target, known=False)
    with Coordinator(proven) as coordinator:
        offer = coordinator.recovery_offer()
        if remembering is not None:
            require_remembered(offer, remembering.read().root_at(proven.address))
        if kept is not None:
            require_root(offer, kept)
        elif warn:
            typer.echo("warning: without --root the deployment is not compared", err=True)
        yield coordinator, offer
