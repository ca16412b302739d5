"""`keyhouse evidence`: what a deployment's history proves, in a file."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click
import msgspec

from keyhouse.base.printable import printable
from keyhouse.cli.log.policy import read_policy
from keyhouse.cli.options.connect import collateral_for, trusted
from keyhouse.cli.options.pccs import vendor_root
from keyhouse.cli.options.target import Target, TrustOptions, host_and_word
from keyhouse.cli.output.bar import long_work
from keyhouse.cli.output.files import NewFile, read_file, reading, write_output
from keyhouse.cli.output.show import show_json, show_result, show_rows, show_table
from keyhouse.cli.parser import Argument, AsJson, Group, Option, OptionGroup, WrongUsageError

if TYPE_CHECKING:
    from keyhouse.attestation import ExpectedIdentity
    from keyhouse.client import Coordinator
    from keyhouse.evidence.pins import Pins
    from keyhouse.evidence.verify import Verified


app = Group()

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


@app.command("export")
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
    _show_file(found, as_json=as_json)
    if not as_json:
        click.echo("who gets the file needs the SHA-256 of the root from elsewhere", err=True)


def _show_file(found: Mapping[str, object], *, as_json: bool) -> None:
    show_result(found, {name: str(value) for name, value in found.items()}, as_json=as_json)


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


_MOST_ROWS: Final = 200
_FINGERPRINT: Final = re.compile(r"[0-9a-fA-F]{64}")

EvidenceFile = Annotated[
    str, Argument(metavar="FILE", help="evidence file, also compressed by gzip; - is stdin")
]
Page = Annotated[str, Option("--html", metavar="FILE", help="new file: the report as a page")]


class Trusted(OptionGroup, frozen=True, kw_only=True):
    """What an auditor has from elsewhere than the file."""

    section = "Trust"

    attestation: Annotated[
        Path, Option("--attestation", help="attestation file: code that vouches for the end")
    ]
    accept_code: Annotated[
        list[Path],
        Option("--accept-code", help="attestation file: code that may have started before, too"),
    ] = msgspec.field(default_factory=list)
    root_fingerprint: Annotated[
        str, Option("--root-fingerprint", metavar="HEX", help="SHA-256 of the root certificate")
    ] = ""
    manifest_fingerprint: Annotated[
        str,
        Option("--manifest-fingerprint", metavar="HEX", help="SHA-256 of the first manifest"),
    ] = ""
    policy: Annotated[
        Path | None, Option("--policy", help="witnesses that are trusted (C2SP tlog-policy)")
    ] = None
    no_witnesses: Annotated[
        bool, Option("--no-witnesses", help="trust none: then a fork is NOT excluded")
    ] = False
    max_age: Annotated[
        int | None,
        Option(
            "--max-age",
            metavar="SECONDS",
            range=(1, 315_360_000),
            help="refuse a file whose last witness time is older",
        ),
    ] = None
    simulation_root: Annotated[
        Path | None,
        Option("--simulation-root", help="root (PEM) of a SIMULATED platform: proves nothing"),
    ] = None

    def pins(self) -> "Pins":
        """Return what the options pin. Raises ``WrongUsageError`` and ``RefusedError``."""
        from keyhouse.evidence.pins import Pins

        if bool(self.root_fingerprint) == bool(self.manifest_fingerprint):
            raise WrongUsageError(
                "no deployment: pass --root-fingerprint or --manifest-fingerprint",
                hint="without one any deployment could be shown; its operator tells it to you",
            )
        if (self.policy is None) != self.no_witnesses:
            raise WrongUsageError(
                "no witnesses: pass --policy, or --no-witnesses",
                hint="without witnesses nobody can exclude that others were shown another history",
            )
        if self.max_age is not None and self.policy is None:
            raise WrongUsageError.no_effect(
                "--max-age", "only witnesses prove a time: use --policy"
            )
        return Pins(
            root=_fingerprint("--root-fingerprint", self.root_fingerprint),
            manifest=_fingerprint("--manifest-fingerprint", self.manifest_fingerprint),
            vendor_root=vendor_root(self.simulation_root),
            identity=_identity(self.attestation),
            accepted=tuple(map(_identity, self.accept_code)),
            policy=None if self.policy is None else read_policy(str(self.policy)),
            now=datetime.now(UTC),
            max_age=None if self.max_age is None else timedelta(seconds=self.max_age),
        )


@app.command("verify")
def verify(
    file: EvidenceFile,
    trust: Trusted,
    html: Page = "",
    *,
    strict: Annotated[
        bool, Option("--strict", help="refuse a file in which anything could not be checked")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify an evidence file; needs no network.

    Exit code 4 if it is not proven. What could not be checked is printed, and does not change the
    exit code without --strict.

    Example: keyhouse evidence verify deployment.evidence.json --attestation attestation.json
    --root-fingerprint HEX --policy witnesses.policy
    """
    from keyhouse.evidence.verify import require_no_gaps

    pins = trust.pins()
    verified = _verified(file, pins, quiet=as_json)
    if strict:
        require_no_gaps(verified)
    _show(verified, html, as_json=as_json)


@app.command("show")
def show(file: EvidenceFile, html: Page = "", *, as_json: AsJson = False) -> None:
    """Print what an evidence file says; nobody vouches for it.

    That is what verify does. Its form, the tree, the log's signatures and the order of the history
    are checked.

    Example: keyhouse evidence show deployment.evidence.json
    """
    _show(_verified(file, None, quiet=as_json), html, as_json=as_json)


@app.command("proof")
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
    _show_file({"file": output, "bytes": len(content)}, as_json=as_json)


def _verified(file: str, pins: "Pins | None", *, quiet: bool) -> "Verified":
    from keyhouse.evidence import verify as verifying
    from keyhouse.evidence.bundle import MOST_BYTES, read_evidence

    with long_work("verifying", quiet=quiet, at_once=False):
        return verifying.verify(read_evidence(read_file(file, MOST_BYTES)), pins)


def _show(verified: "Verified", html: str, *, as_json: bool) -> None:
    from keyhouse.evidence.report import gaps_of, in_words, rows_of, summary_of

    if html:
        from keyhouse.evidence.page import page_of

        write_output(page_of(verified), html)
    rows = rows_of(verified)
    if as_json:
        show_json(
            {
                "verified": verified.pins is not None,
                "witnessed": verified.witnessed,
                "simulation": verified.is_simulated,
                "summary": summary_of(verified),
                "entries": rows,
                "notProven": gaps_of(verified),
            }
        )
        return
    show_rows({"result": _result(verified), **summary_of(verified)}, wraps=True)
    click.echo()
    cells = [
        (row.numbers, in_words(row.claimed), in_words(row.witnessed), row.text) for row in rows
    ]
    show_table(("ENTRY", "CLAIMED (UTC)", "WITNESSED", "WHAT"), cells[-_MOST_ROWS:])
    if len(cells) > _MOST_ROWS:
        click.echo(f"({len(cells) - _MOST_ROWS} rows before these: --html or --json has all)")
    click.echo("\nNOT PROVEN:")
    for each in gaps_of(verified):
        click.echo(f"- {printable(each)}")


def _result(verified: "Verified") -> str:
    if verified.pins is None:
        return "NOT VERIFIED: this is what the file says"
    found = "PROVEN, except for what is listed below"
    if verified.witnessed is None:
        found += "; NO WITNESSES: a fork is NOT excluded"
    return f"{found}; SIMULATION: proves nothing about hardware" if verified.is_simulated else found


def _fingerprint(option: str, text: str) -> str:
    if text and not _FINGERPRINT.fullmatch(text):
        raise WrongUsageError(f"invalid {option}", hint="64 hexadecimal digits")
    return text.lower()


def _identity(path: Path) -> "ExpectedIdentity":
    from keyhouse.attestation import read_expected_identity

    with reading(str(path)) as content:
        return read_expected_identity(content)
