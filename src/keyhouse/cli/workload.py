"""`keyhouse workload list`: who has joined, when and as what, from the audit trail."""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

from keyhouse.base.printable import printable
from keyhouse.cli.options.connect import coordinator_of
from keyhouse.cli.options.target import Target
from keyhouse.cli.options.user import User
from keyhouse.cli.output.show import show_json, show_table
from keyhouse.cli.parser.command import AsJson
from keyhouse.cli.parser.group import Group
from keyhouse.cli.parser.parameters import Option
from keyhouse.manifest import Manifest, decode

if TYPE_CHECKING:
    from keyhouse.client import Activation, Coordinator

__all__ = ["app"]

app = Group()

_HEAD: Final = ("time", "type", "package", "TCB", "uuid", "names", "")
_WIDTHS: Final = (24, 12, 12, 18, 36, 0, 0)  # of columns that grow, without a table


@app.command("list")
def list_workloads(
    target: Target,
    user: User,
    *,
    everything: Annotated[
        bool, Option("--all", help="all that the coordinator keeps, not the newest 1,000 alone")
    ] = False,
    watch: Annotated[
        bool, Option("--watch", "-w", help="stay, and print who joins; ended with Ctrl+C")
    ] = False,
    interval: Annotated[
        int, Option("--interval", metavar="SECONDS", help="how often to ask", range=(1, 3600))
    ] = 2,
    as_json: AsJson = False,
) -> None:
    """List who has joined, oldest first.

    It answers users who may update the manifest.

    Example: keyhouse workload list localhost:4433 --cert alice.crt --key alice.key
    --attestation attestation.json --simulation-root root.pem

    The package is that of the type in the manifest in force. With --watch and --json each
    activation is an object on a line of its own.
    """
    with coordinator_of(target, user) as coordinator:
        found = _Trail(coordinator, 0 if everything else None)
        manifest = decode(coordinator.manifest().manifest)
        if not watch:
            _show(list(found.until_now()), manifest, as_json=as_json)
            return
        try:
            _watch(found, manifest, interval, as_json=as_json)
        except KeyboardInterrupt:
            return


class _Trail:
    """The activations from number ``start`` on (None: the newest page), each once."""

    def __init__(self, coordinator: "Coordinator", start: int | None) -> None:
        self._coordinator = coordinator
        self._next = start

    def until_now(self) -> "Iterator[Activation]":
        """Yield those that are new since the last call."""
        while True:
            page = self._coordinator.activations(self._next)
            self._next = page.next
            yield from page.activations
            if not page.activations:
                return


def _watch(found: _Trail, manifest: Manifest, interval: int, *, as_json: bool) -> None:
    if not as_json:
        sys.stdout.write(_line(_HEAD))
    while True:
        for each in found.until_now():
            if as_json:
                show_json(each)
            else:
                sys.stdout.write(_line(_row(each, manifest)))
        sys.stdout.flush()
        time.sleep(interval)


def _show(found: "list[Activation]", manifest: Manifest, *, as_json: bool) -> None:
    if as_json:
        show_json({"activations": found})
        return
    has_notes = any(each.moved_from for each in found)
    rows = [_row(each, manifest) for each in found]
    columns = len(_HEAD) if has_notes else len(_HEAD) - 1
    show_table(_HEAD[:columns], [row[:columns] for row in rows])


def _row(each: "Activation", manifest: Manifest) -> tuple[str, ...]:
    marble = manifest.marbles.get(each.marble_type)
    return (
        each.time,
        each.marble_type,
        marble.package if marble is not None else "",
        each.tcb_status if each.quoted else "no quote",
        each.uuid,
        ", ".join(each.names),
        f"was on platform {each.moved_from}" if each.moved_from else "",
    )


def _line(cells: tuple[str, ...]) -> str:
    shown = (printable(cell).ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
    return "  ".join(shown).rstrip() + "\n"
