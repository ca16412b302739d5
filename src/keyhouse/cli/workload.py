"""`keyhouse workload`: list activations with their counters, refusals and revocations."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import printable
from keyhouse.cli.options.connect import coordinator_of
from keyhouse.cli.options.target import Target
from keyhouse.cli.options.user import UserOption
from keyhouse.cli.output.show import show_json, show_table
from keyhouse.cli.parser import AsJson, CommandGroup, Option
from keyhouse.manifest import Manifest, decode

if TYPE_CHECKING:
    from keyhouse.client import (
        Activation,
        ActivationLimit,
        Coordinator,
        LivingWorkload,
        RefusedActivation,
        WorkloadCounters,
        Workloads,
    )

app = CommandGroup()

_HEAD: Final = ("time", "type", "package", "TCB", "uuid", "names", "")
_ALWAYS: Final = 6  # columns that the table shows even if they are empty
_LIMITS: Final = ("type", "package", "activations")
_REFUSED: Final = ("newest", "times", "type", "package", "uuid", "reason")
_LIVING: Final = ("type", "uuid", "platform", "ends", "state")
_REVOKED: Final = ("type", "uuid", "platform", "ends", "")
_SHOWN: Final = 3  # counters of a workload in the table
_WIDTHS: Final = (
    24,
    12,
    12,
    18,
    36,
    0,
    0,
)  # widths of the columns with --watch, which prints no table


@app.command("list")
def list_workloads(
    target: Target,
    user: UserOption,
    *,
    everything: Annotated[
        bool, Option("--all", help="list all stored activations, not only the newest 1,000")
    ] = False,
    watch: Annotated[
        bool, Option("--watch", "-w", help="continue, and print new activations until Ctrl-C")
    ] = False,
    interval: Annotated[
        int, Option("--interval", metavar="SECONDS", help="time between requests", range=(1, 3600))
    ] = 2,
    as_json: AsJson = False,
) -> None:
    """List activations, oldest first, with counters and limits.

    The list has the newest 1,000 activations. The coordinator answers only users who may update the
    manifest.

    Example: keyhouse workload list localhost:4433 --cert alice.crt --key alice.key --attestation
    attestation.json --simulation-root root.pem

    The column package has the package of the type in the manifest in force, not the package at the
    activation. With --watch, the command prints no counters. With --watch and --json, each
    activation is an object on its own line.
    """
    with coordinator_of(target, user) as coordinator:
        trail = _Trail(coordinator, 0 if everything else None)
        manifest = decode(coordinator.manifest().manifest)
        if not watch:
            joined = list(trail.until_now())
            _show(joined, _request_counters(coordinator, trail.start), manifest, as_json=as_json)
            return
        try:
            _watch(trail, manifest, interval, as_json=as_json)
        except KeyboardInterrupt:
            return


@app.command("refused")
def list_refused(target: Target, user: UserOption, *, as_json: AsJson = False) -> None:
    """List refused activations with their reasons, newest first.

    The coordinator answers only users who may update the manifest.

    Example: keyhouse workload refused localhost:4433 --cert alice.crt --key alice.key --attestation
    attestation.json --simulation-root root.pem

    The list has the refusals by the answering coordinator since its start. Each of several
    coordinators has its own list. Equal refusals are one row with their number. If the column
    package is empty, the manifest did not have the type at the time of the refusal.
    """
    with coordinator_of(target, user) as coordinator:
        refusals = coordinator.refused_activations()
    if as_json:
        show_json(refusals)
        return
    if not refusals.refused:
        sys.stdout.write(f"no activation was refused since {printable(refusals.since)}\n")
        return
    show_table(_REFUSED, [_refused_row(each) for each in refusals.refused])


@app.command("status")
def list_living(target: Target, user: UserOption, *, as_json: AsJson = False) -> None:
    """List the workloads that renew their certificates.

    The coordinator answers users who may revoke a type or update the manifest. A workload leaves
    the list a day after the end of its certificate. With --json, each workload is an object on its
    own line.

    Example: keyhouse workload status localhost:4433 --cert alice.crt --key alice.key --attestation
    attestation.json --simulation-root root.pem
    """
    with coordinator_of(target, user) as coordinator:
        found = [each for page in _pages(coordinator) for each in page.workloads]
    if as_json:
        for each in found:
            show_json(each)
        return
    if not found:
        sys.stdout.write("no workload renews its certificate\n")
        return
    rows = [(each.marble_type, each.uuid, each.platform, each.ends, _state(each)) for each in found]
    show_table(_LIVING, sorted(rows))


@app.command("roots")
def list_roots(target: Target, user: UserOption, *, as_json: AsJson = False) -> None:
    """List the marble root in force, then the trusted former roots.

    The coordinator answers users who may revoke a type or update the manifest.

    Example: keyhouse workload roots localhost:4433 --cert alice.crt --key alice.key --attestation
    attestation.json --simulation-root root.pem
    """
    with coordinator_of(target, user) as coordinator:
        roots = coordinator.workloads().roots
    if as_json:
        show_json(roots)
        return
    rows = [(each.fingerprint, each.until or "in force") for each in roots]
    show_table(("SHA-256", "until"), rows)


def _pages(coordinator: "Coordinator") -> "Iterator[Workloads]":
    place = ""
    while True:
        page = coordinator.workloads(place)
        yield page
        place = page.next
        if not place:
            return


def _state(each: "LivingWorkload") -> str:
    return each.state if each.renewed or each.state != "current" else "not renewed yet"


@app.command("revoke")
def revoke(
    target: Target,
    user: UserOption,
    *,
    workload: Annotated[
        str, Option("--workload", metavar="TYPE/UUID", help="a marble type and a UUID")
    ] = "",
    marble_type: Annotated[str, Option("--type", metavar="TYPE", help="a marble type")] = "",
    platform: Annotated[
        str,
        Option(
            "--platform",
            metavar="HEX",
            help="a machine, by the identifier of its processor: Intel's PPID or AMD's CHIP_ID, as"
            " keyhouse workload list --json prints it",
        ),
    ] = "",
    reason: Annotated[
        str, Option("--reason", metavar="TEXT", help="the reason, for the update log")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Revoke a workload, all workloads of a type, or a machine.

    The coordinator refuses the revoked certificates at once. Other workloads accept each of these
    certificates until its end. The workloads of a revoked type may renew with a new quote. A
    revoked workload may activate again. No workload on a revoked machine may activate. The user
    needs the permission RevokeWorkload for the type, and for a machine the permission for all
    types.

    Example: keyhouse workload revoke localhost:4433 --type web --reason "a key leaked" --cert
    alice.crt --key alice.key --attestation attestation.json --simulation-root root.pem

    If the manifest names Revocations in AnchorBefore, the coordinator answers after a quorum of the
    witnesses has cosigned the revocation, or after 5 seconds without a quorum.
    """
    given = [each for each in (workload, marble_type, platform) if each]
    if len(given) != 1:
        raise RefusedError(
            f"the command line has {len(given)} of the options --workload, --type and --platform,"
            " expected 1",
            hint="pass one of these options",
        )
    named, slash, uuid = workload.rpartition("/")
    if workload and not (named and slash and uuid):
        raise RefusedError(
            "the value of --workload is not TYPE/UUID",
            hint="copy type and UUID from the output of keyhouse workload list",
        )
    with coordinator_of(target, user) as coordinator:
        found = coordinator.revoke(
            marble_type=named or marble_type, uuid=uuid, platform=platform, reason=reason
        )
    if as_json:
        show_json(found)
        return
    count = f"{found.workloads} workload{'' if found.workloads == 1 else 's'}"
    sys.stdout.write(f"revoked {printable(given[0])}: {count}\n")
    if found.ends:
        sys.stdout.write(f"other workloads accept certificates until {printable(found.ends)}\n")
    if found.witnessed:
        sys.stdout.write("a quorum of the witnesses has cosigned the revocation\n")
    if found.message:
        sys.stderr.write(f"warning: {printable(found.message)}\n")


@app.command("revocations")
def list_revocations(target: Target, user: UserOption, *, as_json: AsJson = False) -> None:
    """List the revoked workloads and machines.

    A workload stays in the list until a day after the end of its certificate. The update log has
    all revocations with user and reason.

    Example: keyhouse workload revocations localhost:4433 --cert alice.crt --key alice.key
    --attestation attestation.json --simulation-root root.pem
    """
    with coordinator_of(target, user) as coordinator:
        found = coordinator.revocations()
    if as_json:
        show_json(found)
        return
    if not found.workloads and not found.platforms:
        sys.stdout.write("nothing is revoked\n")
        return
    rows = [
        (each.marble_type, each.uuid, each.platform, each.ends, "renews" if each.renews else "")
        for each in found.workloads
    ]
    rows += [("", "", each.platform, "", f"by {each.user}") for each in found.platforms]
    show_table(_REVOKED, rows)


def _refused_row(each: "RefusedActivation") -> tuple[str, ...]:
    reason = f"{each.reason} ({each.hint})" if each.hint else each.reason
    return (each.time, str(each.count), each.marble_type, each.package, each.uuid, reason)


class _Trail:
    """Reads the audit trail, page by page, from the activation with the number ``start`` on.

    None for ``start`` means the newest page of the coordinator.
    """

    def __init__(self, coordinator: "Coordinator", start: int | None) -> None:
        self._coordinator = coordinator
        self._next = self.start = start

    def until_now(self) -> "Iterator[Activation]":
        """Yield the activations after the last call; the first call begins at ``start``."""
        while True:
            page = self._coordinator.activations(self._next)
            self._next = page.next
            yield from page.activations
            if not page.activations:
                return


def _watch(trail: _Trail, manifest: Manifest, interval: int, *, as_json: bool) -> None:
    if not as_json:
        sys.stdout.write(_line(_HEAD))
    while True:
        for each in trail.until_now():
            if as_json:
                show_json(each)
            else:
                sys.stdout.write(_line(_row(each, manifest)))
        sys.stdout.flush()
        time.sleep(interval)


class _Counters(NamedTuple):
    """The activation limits by marble type, and the workloads with monotonic counters."""

    limits: "Mapping[str, ActivationLimit]"
    workloads: "Sequence[WorkloadCounters]"


def _request_counters(coordinator: "Coordinator", start: int | None) -> _Counters:
    """Return the activation limits, and the monotonic counters of workloads.

    ``start`` is the number of an activation in the audit trail: the result has the counters of this
    and all later workloads. None begins at the newest page.
    """
    workloads: dict[tuple[str, str], WorkloadCounters] = {}
    while True:
        page = coordinator.counters(start)
        workloads |= {(each.marble_type, each.uuid): each for each in page.workloads}
        if page.next <= page.first:
            return _Counters(page.limits, tuple(workloads.values()))
        start = page.next


def _show(
    joined: "list[Activation]", counted: _Counters, manifest: Manifest, *, as_json: bool
) -> None:
    if as_json:
        show_json({"activations": joined, **counted._asdict()})
        return
    counters = {(each.marble_type, each.uuid): each.counters for each in counted.workloads}
    rows = []
    for each in joined:
        *cells, note = _row(each, manifest)
        rows.append((*cells, _summary(counters.get((each.marble_type, each.uuid), {})), note))
    head = (*_HEAD[:-1], "counters", "")
    columns = [at for at in range(len(head)) if at < _ALWAYS or any(row[at] for row in rows)]
    show_table([head[at] for at in columns], [[row[at] for at in columns] for row in rows])
    if counted.limits:
        sys.stdout.write("\n")
        show_table(_LIMITS, [_used(name, each, manifest) for name, each in counted.limits.items()])


def _summary(counters: "Mapping[str, int]") -> str:
    shown = [f"{name}={value}" for name, value in list(counters.items())[:_SHOWN]]
    more = len(counters) - len(shown)
    return ", ".join(shown) + (f", {more} more" if more else "")


def _used(marble_type: str, limit: "ActivationLimit", manifest: Manifest) -> tuple[str, ...]:
    end = ", used up" if limit.activations >= limit.max_activations else ""
    used = f"{limit.activations} of {limit.max_activations}{end}"
    return (marble_type, _package(marble_type, manifest), used)


def _row(each: "Activation", manifest: Manifest) -> tuple[str, ...]:
    return (
        each.time,
        each.marble_type,
        _package(each.marble_type, manifest),
        each.tcb_status if each.quoted else "no quote",
        each.uuid,
        ", ".join(each.names),
        f"was on platform {each.moved_from}" if each.moved_from else "",
    )


def _package(marble_type: str, manifest: Manifest) -> str:
    marble = manifest.marbles.get(marble_type)
    return marble.package if marble is not None else ""


def _line(cells: tuple[str, ...]) -> str:
    shown = (printable(cell).ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
    return "  ".join(shown).rstrip() + "\n"
