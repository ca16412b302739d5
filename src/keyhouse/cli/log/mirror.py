"""`keyhouse log key` and `mirror`: the log of a verified coordinator, for those who watch it."""

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import click
from msgspec.structs import replace

from keyhouse.cli.options.connect import coordinator_of
from keyhouse.cli.options.target import Target, TrustOptions, host_and_word
from keyhouse.cli.output.bar import long_work
from keyhouse.cli.output.show import show_json, show_result, show_rows
from keyhouse.cli.parser import Argument, AsJson, Option, command
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.mirrored_line import MirroredEntry, MirroredLine
from keyhouse.transparency.reading import known_leaf, objects_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from keyhouse.cli.log.folder import MirrorFolder
    from keyhouse.client import Coordinator

Words = Annotated[
    list[str],
    Argument(
        metavar="HOST DIR",
        help="address of the Client API, which a context may name; then the directory",
    ),
]


@command
def key(
    target: Target,
    *,
    omniwitness: Annotated[
        bool,
        Option("--omniwitness", help="print a file for its --additional_logs instead"),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the key of the log, which the attested root has signed.

    Witnesses and monitors are configured with it, so it is printed before any witness has seen the
    log, whatever --witness-policy demands.

    Example: keyhouse log key localhost:4433 --omniwitness
    """
    verified = replace(target.settled(), context="none", witness_policy=None, log_max_age=None)
    with coordinator_of(verified) as coordinator:
        found = coordinator.log_key()
    if as_json:
        show_json({"origin": found.origin, "key": found.verifier_key})
    elif omniwitness:
        address = coordinator.trusted.address
        click.echo(f"Logs:\n  - Origin: {found.origin}\n    PublicKey: {found.verifier_key}")
        click.echo(f"    URL: https://{address}/api/v2/log")
    else:
        show_rows({"origin": found.origin, "key": found.verifier_key})


class Mirrored(NamedTuple):
    """What a mirror has, and what is new of it."""

    size: int
    new: int
    missing: list[str]  # objects that the coordinator does not have
    unread: int  # new leaves that this version cannot read
    entries: int  # of the line of the root
    no_line: str  # why there is no line; empty: there is one


@command
def mirror(words: Words, trusting: TrustOptions, *, as_json: AsJson = False) -> None:
    """Copy the log into a directory for any web server.

    It continues where it stopped. What is copied is verified first, and that it continues what DIR
    has. The quotes that prove the line of the root are copied too: a recovery needs them.

    Example: keyhouse log mirror localhost:4433 /srv/log
    """
    from keyhouse.cli.log.folder import MirrorFolder

    host, directory = host_and_word(words, "keyhouse log mirror HOST DIR")
    folder, target = MirrorFolder(Path(directory)), Target.at(host, trusting)
    with coordinator_of(target) as coordinator, long_work("mirroring", quiet=as_json):
        found = mirrored(coordinator, folder)
    rows = {"leaves": str(found.size), "new": str(found.new)}
    if found.missing:
        rows["not kept by the coordinator"] = ", ".join(found.missing)
    if found.unread:
        rows["leaves of a newer version"] = str(found.unread)
    rows["line entries"] = found.no_line or str(found.entries)
    tally = {"size": found.size, "new": found.new, "lineEntries": found.entries}
    missing = {"missingObjects": found.missing, "unreadLeaves": found.unread}
    show_result(tally | missing, rows, as_json=as_json)


def mirrored(coordinator: "Coordinator", folder: "MirrorFolder") -> Mirrored:
    """Bring ``folder`` up to the newest checkpoint of ``coordinator``.

    Raises ``TrustError`` if the log does not continue what the mirror has.
    """
    from keyhouse.client import TrustError
    from keyhouse.transparency.reading import entries_after

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
                hint="keep both: the log was forked, or what was served is damaged",
            ) from None
        line = _line(coordinator, folder)
        if isinstance(line, MirroredLine):
            missing += _copy_objects(coordinator, folder, line.proofs())
            # A manifest that gave a secret its first value is not an object.
            tuple(_copy_objects(coordinator, folder, line.line.manifests))
            folder.put_line(line)
        cosigned = coordinator.witnessed_checkpoint()
        folder.publish(growing, cosigned.note if cosigned.size == new.size else new.note)
    entries, no_line = (0, line) if isinstance(line, str) else (len(line.items), "")
    return Mirrored(new.size, new.size - before, missing, unread, entries, no_line)


def _line(coordinator: "Coordinator", folder: "MirrorFolder") -> MirroredLine | str:
    """Return the line of the root; or a text that says why there is none.

    Raises ``TrustError`` if it does not continue that of the mirror, or the line that was verified.
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
            f"the mirror {folder.path} has the line of the root, the coordinator serves none"
        ) from None
    verified = coordinator.trusted.line
    if verified is not None and not line.line.continues(len(verified.raw), verified.last_hash):
        raise TrustError("the line of the root is not the one that a quote has bound before")
    if known is not None and not line.continues(known):
        raise TrustError(
            f"the line of the root does not continue the one in the mirror {folder.path}",
            hint="keep both: the manifests of this deployment were shown differently before",
        )
    return line


def _copy_objects(
    coordinator: "Coordinator", folder: "MirrorFolder", names: "Iterable[str]"
) -> "Iterator[str]":
    """Copy the objects ``names``; yield those that the coordinator does not have."""
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
