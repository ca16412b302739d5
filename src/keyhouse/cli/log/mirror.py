"""`keyhouse log key` and `mirror`: a verified coordinator's log, for witnesses and monitors."""

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import click
from msgspec.structs import replace

from keyhouse.cli.options.connect import coordinator_of
from keyhouse.cli.options.target import Target, TrustOptions, host_and_word
from keyhouse.cli.output.progress_bar import long_work
from keyhouse.cli.output.show import show_json, show_result, show_rows
from keyhouse.cli.parser import Argument, AsJson, Option, command
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.log_reader import known_leaf, objects_named
from keyhouse.transparency.mirrored_line import MirroredEntry, MirroredLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from keyhouse.cli.log.folder import MirrorFolder
    from keyhouse.client import Coordinator

Words = Annotated[
    list[str],
    Argument(
        metavar="HOST DIR",
        help="address of the Client API (optional with a context), then the directory",
    ),
]


@command
def key(
    target: Target,
    *,
    omniwitness: Annotated[
        bool,
        Option(
            "--omniwitness", help="print a configuration file for omniwitness (--additional_logs)"
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the key of the log, signed by the attested root.

    Witnesses and monitors need the key in their configuration. So the command prints the key before
    any witness has seen the log, even with --witness-policy.

    Example: keyhouse log key localhost:4433 --omniwitness
    """
    verified = replace(target.resolve(), context="none", witness_policy=None, log_max_age=None)
    with coordinator_of(verified) as coordinator:
        data = coordinator.log_key()
    if as_json:
        show_json({"origin": data.origin, "key": data.verifier_key})
    elif omniwitness:
        address = coordinator.trusted.address
        click.echo(f"Logs:\n  - Origin: {data.origin}\n    PublicKey: {data.verifier_key}")
        click.echo(f"    URL: https://{address}/api/v2/log")
    else:
        show_rows({"origin": data.origin, "key": data.verifier_key})


class MirrorReport(NamedTuple):
    """The result of a run of `keyhouse log mirror`.

    ``size`` is the number of leaves in the mirror, and ``new`` the number of leaves of this run.
    """

    size: int
    new: int
    missing: list[str]  # objects that the coordinator lacks
    unread: int  # new leaves that this version cannot read
    entries: int  # entries in the line of the root
    no_line: str  # the reason for a missing line, or ""


@command
def mirror(words: Words, trusting: TrustOptions, *, as_json: AsJson = False) -> None:
    """Copy the log into a directory for any web server.

    The command first verifies each part, and that the log continues the copy in DIR. A repeated
    command continues the copy. The command also copies the quotes that prove the line of the root
    (all manifests that were ever in force). A recovery needs these quotes.

    Example: keyhouse log mirror localhost:4433 /srv/log
    """
    from keyhouse.cli.log.folder import MirrorFolder

    host, directory = host_and_word(words, "keyhouse log mirror HOST DIR")
    folder, target = MirrorFolder(Path(directory)), Target.at(host, trusting)
    with coordinator_of(target) as coordinator, long_work("mirroring", quiet=as_json):
        report = mirror_log(coordinator, folder)
    rows = {"leaves": str(report.size), "new": str(report.new)}
    if report.missing:
        rows["not kept by the coordinator"] = ", ".join(report.missing)
    if report.unread:
        rows["leaves of a newer version"] = str(report.unread)
    rows["line entries"] = report.no_line or str(report.entries)
    tally = {"size": report.size, "new": report.new, "lineEntries": report.entries}
    missing = {"missingObjects": report.missing, "unreadLeaves": report.unread}
    show_result(tally | missing, rows, as_json=as_json)


def mirror_log(coordinator: "Coordinator", folder: "MirrorFolder") -> MirrorReport:
    """Copy the log up to the newest checkpoint of ``coordinator`` into the mirror ``folder``.

    Also copy the objects of the leaves and the line of the root. Raises ``TrustError`` if the log
    or the line does not continue the content of the mirror.
    """
    from keyhouse.client import TrustError
    from keyhouse.transparency.log_reader import entries_after

    key, new = coordinator.log_key(), coordinator.log_checkpoint()
    missing: list[str] = []
    unread = 0
    with folder.locked():
        folder.require_key(key.verifier_key)
        growing = folder.growing(folder.checkpoint(key.verifier_key))
        before = growing.size
        try:
            for piece in entries_after(coordinator.log_part, growing.frontier, new.size, new.root):
                for entry in piece:
                    leaf = known_leaf(entry)
                    unread += leaf is None
                    names = objects_named(leaf, folder.object) if leaf else ()
                    missing += _copy_objects(coordinator, folder, names)
                growing.extend(piece)
                if growing.size < new.size:
                    folder.begin(growing)
        except LogInvalidError as error:
            raise TrustError(
                f"the log does not continue the mirror {folder.path}: {error.message}",
                hint="keep the mirror as evidence: the log was forked, or its answers are damaged",
            ) from None
        line = _line(coordinator, folder)
        if isinstance(line, MirroredLine):
            missing += _copy_objects(coordinator, folder, line.proofs())
            # The first manifest with a value of a secret may not be an object of the log.
            tuple(_copy_objects(coordinator, folder, line.line.manifests))
            folder.put_line(line)
        cosigned = coordinator.witnessed_checkpoint()
        folder.publish(growing, cosigned.note if cosigned.size == new.size else new.note)
    entries, no_line = (0, line) if isinstance(line, str) else (len(line.items), "")
    return MirrorReport(new.size, new.size - before, missing, unread, entries, no_line)


def _line(coordinator: "Coordinator", folder: "MirrorFolder") -> MirroredLine | str:
    """Return the line of the root from ``coordinator``; without a line, the reason as text.

    Raises ``TrustError`` if the line does not continue the line in the mirror ``folder``, or the
    line that the quote has bound.
    """
    from keyhouse.client import CallRefusedError, TrustError
    from keyhouse.client.errors import CallUnknownError

    known = folder.line()
    try:
        data = coordinator.line()
        items = [
            MirroredEntry(base64.b64encode(each.entry).decode(), each.quote, each.collateral)
            for each in data.entries
        ]
        line = MirroredLine.of(items)
    except (CallUnknownError, CallRefusedError) as refused:
        if known is None:
            return f"none: the coordinator serves no line ({refused.message})"
        raise TrustError(
            f"the mirror {folder.path} has the line of the root, but the coordinator serves none",
            hint="keep the mirror as evidence: the coordinator hides the line",
        ) from None
    verified = coordinator.trusted.line
    if verified is not None and not line.line.continues(len(verified.raw), verified.last_hash):
        raise TrustError(
            "the line of the root does not continue the line that the quote has bound",
            hint="try again; if the error stays, do not trust the coordinator",
        )
    if known is not None and not line.continues(known):
        raise TrustError(
            f"the line of the root does not continue the line in the mirror {folder.path}",
            hint="keep the mirror as evidence: the coordinator hides or changed earlier manifests",
        )
    return line


def _copy_objects(
    coordinator: "Coordinator", folder: "MirrorFolder", names: "Iterable[str]"
) -> "Iterator[str]":
    """Copy the objects ``names`` of the log into the mirror ``folder``.

    Yield the names of objects that the coordinator does not have.
    """
    from keyhouse.client import CallRefusedError

    for name in names:
        if folder.object(name) is not None:
            continue
        try:
            folder.put_object(name, coordinator.log_part(f"object/{name}"))
        except CallRefusedError as refused:
            if refused.reason != "not-found":
                raise
            yield name
