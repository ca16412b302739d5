"""`keyhouse evidence export | proof`: files from a verified coordinator's log."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import click

from keyhouse.cli.options.connect import collateral_for, trusted
from keyhouse.cli.options.target import Target, TrustOptions, host_and_word
from keyhouse.cli.output.bar import long_work
from keyhouse.cli.output.files import NewFile, read_file
from keyhouse.cli.output.show import show_json, show_rows
from keyhouse.cli.parser import Argument, AsJson, Option

if TYPE_CHECKING:
    from keyhouse.client import Coordinator

Earlier = Annotated[
    str,
    Option(
        "--earlier",
        metavar="FILE",
        help="evidence file of the same log, whose checkpoints are kept for their times",
    ),
]
HideAnchors = Annotated[
    bool,
    Option("--hide-anchors", help="only hashes of entries that say where the journal stood"),
]
Output = Annotated[str, Option("--output", "-o", metavar="FILE", help="new file, 0600")]


def export(
    target: Target,
    output: Output,
    *,
    earlier: Earlier = "",
    hide_anchors: HideAnchors = False,
    as_json: AsJson = False,
) -> None:
    """Write a deployment's whole history into an evidence file.

    It has the log's entries, what they name, the last checkpoint and a quote, with what verifies
    it, so it is verified without a network, by people who never had access here.

    Example: keyhouse evidence export localhost:4433 -o deployment.evidence.json
    """
    from keyhouse.evidence.bundle import MOST_BYTES, read_evidence, write_evidence
    from keyhouse.transparency.leaf import object_name
    from keyhouse.views.evidence import evidence_of

    with _written(output) as file, _session(target, quiet=as_json) as coordinator:
        evidence = evidence_of(
            coordinator,
            partial(collateral_for, target),
            earlier=read_evidence(read_file(earlier, MOST_BYTES)).checkpoints if earlier else (),
            hide_anchors=hide_anchors,
        )
        content = write_evidence(evidence)
        file.write(content)
    found = {
        "file": output,
        "root": object_name(evidence.root),
        "entries": len(evidence.entries),
        "objects": len(evidence.objects),
        "bytes": len(content),
    }
    _show(found, as_json=as_json)
    if not as_json:
        click.echo("who gets the file needs the SHA-256 of the root from elsewhere", err=True)


def proof(
    words: Annotated[
        list[str],
        Argument(
            metavar="HOST INDEX",
            help="address of the Client API, which a context may name; then the number of the"
            " entry, from 0",
        ),
    ],
    output: Output,
    trusting: TrustOptions,
    *,
    as_json: AsJson = False,
) -> None:
    """Write the proof that one entry is in the log (C2SP tlog-proof).

    Any program for such proofs verifies it. The entry is in its line "extra".

    Example: keyhouse evidence proof localhost:4433 2 -o start.tlog-proof
    """
    from keyhouse.evidence.collect import proof_of
    from keyhouse.views.evidence import parts_of

    host, index = host_and_word(words, "keyhouse evidence proof HOST INDEX -o FILE")
    with (
        _written(output) as file,
        _session(Target.at(host, trusting), quiet=as_json) as coordinator,
    ):
        number = int(index) if index.isascii() and index.isdigit() and len(index) < 19 else -1  # noqa: PLR2004
        content = proof_of(parts_of(coordinator), coordinator.witnessed_checkpoint().note, number)
        file.write(content)
    _show({"file": output, "bytes": len(content)}, as_json=as_json)


def _show(found: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        show_json(found)
    else:
        show_rows({name: str(value) for name, value in found.items()})


@contextmanager
def _written(path: str) -> Iterator[NewFile]:
    """Give a new file, which is removed again if the block fails."""
    file = NewFile(path)
    try:
        yield file
    except BaseException:
        file.give_up()
        raise


@contextmanager
def _session(target: Target, *, quiet: bool) -> "Iterator[Coordinator]":
    from keyhouse.client import Coordinator

    with (
        Coordinator(trusted(target), timeout=target.timeouts()) as coordinator,
        long_work("reading the log", quiet=quiet, at_once=False),
    ):
        yield coordinator
