"""`keyhouse log key` and `mirror`: the log of a verified coordinator, for those who watch it."""

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
from keyhouse.transparency.leaf import Leaf, known_leaf
from keyhouse.transparency.reading import objects_named

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@command
def mirror(words: Words, trusting: TrustOptions, *, as_json: AsJson = False) -> None:
    """Copy the log into a directory for any web server.

    It continues where it stopped. What is copied is verified first, and that it continues what DIR
    has.

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
    tally = {"size": found.size, "new": found.new}
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
                    missing += _copy_objects(coordinator, folder, leaf) if leaf else ()
                growing.extend(piece)
                if growing.size < new.size:
                    folder.begin(growing)
        except LogInvalidError as error:
            raise TrustError(
                f"the log does not continue the mirror {folder.path}: {error.message}",
                hint="keep both: the log was forked, or what was served is damaged",
            ) from None
        cosigned = coordinator.witnessed_checkpoint()
        folder.publish(growing, cosigned.note if cosigned.size == new.size else new.note)
    return Mirrored(new.size, new.size - before, missing, unread)


def _copy_objects(
    coordinator: "Coordinator", folder: "MirrorFolder", leaf: Leaf
) -> "Iterator[str]":
    """Copy the objects of ``leaf``; yield the names of those that the coordinator does not have."""
    from keyhouse.client import CallRefusedError

    for name in objects_named(leaf, folder.object):
        if folder.object(name) is not None:
            continue
        try:
            folder.put_object(name, coordinator.log_part(f"object/{name}"))
        except CallRefusedError as refused:
            if refused.reason != "not-found":
                raise
            yield name
