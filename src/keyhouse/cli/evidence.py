"""`keyhouse evidence`: write and verify the history of a deployment in an evidence file."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click
import msgspec

from keyhouse.base.errors import BadRequestError
from keyhouse.base.printable import printable
from keyhouse.base.user_files import read_file
from keyhouse.cli.log.policy import policy_in
from keyhouse.cli.options.connect import collateral_for, verify_target
from keyhouse.cli.options.pccs import vendor_root
from keyhouse.cli.options.target import Target, TrustOptions, host_and_word
from keyhouse.cli.output.files import NewFile, reading, write_output
from keyhouse.cli.output.progress_bar import long_work
from keyhouse.cli.output.show import show_json, show_result, show_rows, show_table
from keyhouse.cli.parser import Argument, AsJson, CommandGroup, Option, OptionGroup, WrongUsageError

if TYPE_CHECKING:
    from keyhouse.attestation import ExpectedIdentity
    from keyhouse.client import Coordinator
    from keyhouse.evidence.gaps import Gap
    from keyhouse.evidence.pins import Pins
    from keyhouse.evidence.verify import Verified
    from keyhouse.transparency.policy import CosignaturePolicy
    from keyhouse.views.audit.inputs import Given, GivenFile


app = CommandGroup()

Earlier = Annotated[
    str,
    Option(
        "--earlier",
        metavar="FILE",
        help="earlier evidence file of the same log: include its checkpoints with their times",
    ),
]
HideAnchors = Annotated[
    bool,
    Option(
        "--hide-anchors",
        help="include only the hashes of anchors, the entries about places of the journal",
    ),
]
Output = Annotated[str, Option("--output", "-o", metavar="FILE", help="new file (0600)")]


@app.command("export")
def export(
    target: Target,
    output: Output,
    *,
    earlier: Earlier = "",
    hide_anchors: HideAnchors = False,
    as_json: AsJson = False,
) -> None:
    """Write the whole history of a deployment into an evidence file.

    The file contains the leaves of the log with their objects, the last checkpoint, and a quote
    with its collateral. So an auditor can verify the file without a network, and without access to
    the deployment.

    Example: keyhouse evidence export localhost:4433 -o deployment.evidence.json
    """
    from keyhouse.evidence.bundle import MOST_BYTES, read_evidence, write_evidence
    from keyhouse.transparency.leaf import object_name
    from keyhouse.views.evidence import evidence_of

    with _new_file(output) as file, _session(target, quiet=as_json) as coordinator:
        evidence = evidence_of(
            coordinator,
            partial(collateral_for, target),
            earlier=read_evidence(read_file(earlier, MOST_BYTES)).checkpoints if earlier else (),
            hide_anchors=hide_anchors,
        )
        content = write_evidence(evidence)
        file.write(content)
    result = {
        "file": output,
        "root": object_name(evidence.root),
        "entries": len(evidence.entries),
        "objects": len(evidence.objects),
        "bytes": len(content),
    }
    _show_file(result, as_json=as_json)
    if not as_json:
        click.echo(
            "send the SHA-256 of the root to the auditor on another way than the file", err=True
        )


def _show_file(fields: Mapping[str, object], *, as_json: bool) -> None:
    show_result(fields, {name: str(value) for name, value in fields.items()}, as_json=as_json)


@contextmanager
def _new_file(path: str) -> Iterator[NewFile]:
    """Create and yield the new file ``path``; remove the file if the block fails."""
    file = NewFile(path)
    try:
        yield file
    except BaseException:
        file.remove()
        raise


@contextmanager
def _session(target: Target, *, quiet: bool) -> "Iterator[Coordinator]":
    from keyhouse.client import Coordinator

    with (
        Coordinator(verify_target(target), timeout=target.timeouts()) as coordinator,
        long_work("reading the log", quiet=quiet, at_once=False),
    ):
        yield coordinator


_MOST_ROWS: Final = 200  # rows of the table on a terminal; --html and --json have all rows
_FINGERPRINT: Final = re.compile(r"[0-9a-fA-F]{64}")

EvidenceFile = Annotated[
    str,
    Argument(metavar="FILE", help="evidence file, also compressed by gzip; - for standard input"),
]
Page = Annotated[str, Option("--html", metavar="FILE", help="new file for the report as a page")]


class AuditorOptions(OptionGroup, frozen=True, kw_only=True):
    """The auditor's own expectations, which must not come from the evidence file."""

    section = "Trust"

    attestation: Annotated[
        Path,
        Option(
            "--attestation",
            help="attestation file: identity of the code that runs at the end of the history",
        ),
    ]
    accept_code: Annotated[
        list[Path],
        Option("--accept-code", help="attestation file: other code that may appear in the history"),
    ] = msgspec.field(default_factory=list)
    root_fingerprint: Annotated[
        str,
        Option(
            "--root-fingerprint", metavar="HEX", help="SHA-256 of the deployment's root certificate"
        ),
    ] = ""
    manifest_fingerprint: Annotated[
        str,
        Option(
            "--manifest-fingerprint",
            metavar="HEX",
            help="SHA-256 of the deployment's first manifest",
        ),
    ] = ""
    policy: Annotated[
        Path | None,
        Option("--policy", help="policy file with the trusted witnesses (C2SP tlog-policy)"),
    ] = None
    no_witnesses: Annotated[
        bool, Option("--no-witnesses", help="trust no witnesses: then a fork is NOT excluded")
    ] = False
    max_age: Annotated[
        int | None,
        Option(
            "--max-age",
            metavar="SECONDS",
            range=(1, 315_360_000),
            help="refuse a file if the last time of the witnesses is older",
        ),
    ] = None
    simulation_root: Annotated[
        Path | None,
        Option(
            "--simulation-root",
            help="root certificate (PEM) of a SIMULATED platform: proves nothing",
        ),
    ] = None
    allow: Annotated[
        list[str],
        Option(
            "--allow",
            metavar="NAME",
            help="accept this gap, a check that could not be made; the error names the gaps",
        ),
    ] = msgspec.field(default_factory=list)
    before: Annotated[
        list[str],
        Option(
            "--before",
            metavar="FILE",
            help="evidence file of the log before this log; with several logs, the oldest first",
        ),
    ] = msgspec.field(default_factory=list)

    def pins(self) -> "tuple[Pins, tuple[GivenFile, ...]]":
        """Return the auditor's expectations, and the files with their hashes for the report.

        Raises ``WrongUsageError`` and ``RefusedError``.
        """
        from keyhouse.evidence.pins import Pins

        files = _Files()
        if bool(self.root_fingerprint) == bool(self.manifest_fingerprint):
            problem = "two deployments" if self.root_fingerprint else "no deployment"
            raise WrongUsageError(
                f"the options name {problem}: pass either --root-fingerprint or"
                " --manifest-fingerprint",
                hint="ask the operator for the fingerprint; without a fingerprint, the file could"
                " show any deployment",
            )
        if (self.policy is None) != self.no_witnesses:
            problem = "are missing" if self.policy is None else "contradict each other"
            raise WrongUsageError(
                f"--policy and --no-witnesses {problem}; expected one of these options",
                hint="pass --policy with the policy of the witnesses; without witnesses, other"
                " people may have received a different history",
            )
        if self.max_age is not None and self.policy is None:
            raise WrongUsageError.no_effect(
                "--max-age", "use --policy, because only witnesses prove a time"
            )
        pins = Pins(
            root=_fingerprint("--root-fingerprint", self.root_fingerprint),
            manifest=_fingerprint("--manifest-fingerprint", self.manifest_fingerprint),
            vendor_root=vendor_root(self.simulation_root),
            identity=files.identity("--attestation", self.attestation),
            accepted=tuple(files.identity("--accept-code", each) for each in self.accept_code),
            policy=None if self.policy is None else files.policy(self.policy),
            now=datetime.now(UTC),
            max_age=None if self.max_age is None else timedelta(seconds=self.max_age),
            allowed=self._allowed_gaps(),
        )
        return pins, tuple(files.read)

    def _allowed_gaps(self) -> "frozenset[Gap]":
        """Return the gaps of ``--allow``; with ``--no-witnesses``, also the gap of that name.

        Raises ``WrongUsageError``.
        """
        from keyhouse.evidence.gaps import Gap, read_gaps

        try:
            gaps = read_gaps(self.allow)
        except BadRequestError as error:
            raise WrongUsageError(f"--allow is invalid: {error.message}", hint=error.hint) from None
        return gaps | {Gap.NO_WITNESSES} if self.no_witnesses else gaps


@app.command("verify")
def verify(
    file: EvidenceFile,
    trust: AuditorOptions,
    html: Page = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Verify an evidence file; needs no network.

    Exit code 0: the file proves everything that an evidence file can prove, except for the gaps
    that --allow names. Exit code 4: the proof failed, or has further gaps. If the proof only has
    further gaps, the command still prints the report.

    After keyhouse serve --begin-new-log, pass the evidence file of the old log with --before. The
    command then also verifies the old log, and that the new log continues it.

    Example: keyhouse evidence verify deployment.evidence.json --attestation attestation.json
    --root-fingerprint HEX --policy witnesses.policy
    """
    from keyhouse.evidence.verify import require_allowed
    from keyhouse.views.audit.inputs import Given

    pins, trusted_files = trust.pins()
    verified, (newest, *old) = _examine(pins, file, *trust.before, quiet=as_json)
    _show(verified, Given(newest, trusted_files, tuple(old)), html, as_json=as_json)
    require_allowed(verified)


@app.command("show")
def show(file: EvidenceFile, html: Page = "", *, as_json: AsJson = False) -> None:
    """Print an evidence file, without a proof of its origin.

    The command checks that the file agrees with itself: format, tree, signatures of the log, order
    of the history. Anybody can make such a file: use keyhouse evidence verify for a proof.

    Example: keyhouse evidence show deployment.evidence.json
    """
    from keyhouse.views.audit.inputs import Given

    verified, (newest,) = _examine(None, file, quiet=as_json)
    _show(verified, Given(newest), html, as_json=as_json)


@app.command("proof")
def proof(
    words: Annotated[
        list[str],
        Argument(
            metavar="HOST INDEX",
            help="address of the Client API (optional with a context), then the number of the"
            " entry, from 0",
        ),
    ],
    output: Output,
    trusting: TrustOptions,
    *,
    as_json: AsJson = False,
) -> None:
    """Write the proof that the log contains a leaf (C2SP tlog-proof).

    Any program for such proofs can verify the file. The line "extra" of the file contains the leaf.

    Example: keyhouse evidence proof localhost:4433 2 -o start.tlog-proof
    """
    from keyhouse.evidence.collect import proof_of
    from keyhouse.views.evidence import parts_of

    host, index = host_and_word(words, "keyhouse evidence proof HOST INDEX -o FILE")
    with (
        _new_file(output) as file,
        _session(Target.at(host, trusting), quiet=as_json) as coordinator,
    ):
        number = int(index) if index.isascii() and index.isdigit() and len(index) < 19 else -1  # noqa: PLR2004
        content = proof_of(parts_of(coordinator), coordinator.witnessed_checkpoint().note, number)
        file.write(content)
    _show_file({"file": output, "bytes": len(content)}, as_json=as_json)


def _examine(
    pins: "Pins | None", *files: str, quiet: bool
) -> "tuple[Verified, tuple[GivenFile, ...]]":
    """Verify the first evidence file in ``files``; return the result, and each file with its hash.

    Further files are the evidence files of former logs, oldest first. ``pins`` has the auditor's
    expectations. Without ``pins`` (None), the function checks only that the file agrees with
    itself. ``quiet``: show no progress.
    """
    from keyhouse.evidence import verify as verifying
    from keyhouse.evidence.bundle import MOST_BYTES, read_evidence
    from keyhouse.views.audit.inputs import GivenFile

    with long_work("verifying", quiet=quiet, at_once=False):
        raws = [read_file(each, MOST_BYTES) for each in files]
        names = ["standard input" if each == "-" else Path(each).name for each in files]
        descriptions = map(GivenFile.of, ("FILE", *(["--before"] * len(raws))), names, raws)
        newest, *before = map(read_evidence, raws)
        return verifying.examine(newest, pins, *before), tuple(descriptions)


def _show(verified: "Verified", sources: "Given", html: str, *, as_json: bool) -> None:
    from keyhouse.evidence.report import gaps_of, in_words, result_of, rows_of, summary_of

    if html:
        from keyhouse.views.audit.page import page_of

        write_output(page_of(verified, sources), html)
    rows = rows_of(verified)
    if as_json:
        show_json(
            {
                **result_of(verified),
                "file": {"name": sources.evidence.name, "sha256": sources.evidence.sha256},
                "filesBefore": [
                    {"name": each.name, "sha256": each.sha256} for each in sources.before
                ],
                "summary": summary_of(verified),
                "entries": rows,
                "notProven": gaps_of(verified),
            }
        )
        return
    files_by_role = {"file": sources.evidence} | {
        f"before, {each.name}": each for each in sources.before
    }
    files = {name: f"{each.name}, SHA-256 {each.sha256}" for name, each in files_by_role.items()}
    show_rows({"result": _result(verified), **files, **summary_of(verified)}, wraps=True)
    click.echo()
    cells = [
        (row.numbers, in_words(row.claimed), in_words(row.witnessed), row.text) for row in rows
    ]
    show_table(("ENTRY", "CLAIMED (UTC)", "WITNESSED", "WHAT"), cells[-_MOST_ROWS:])
    if len(cells) > _MOST_ROWS:
        click.echo(f"({len(cells) - _MOST_ROWS} earlier rows: use --html or --json for all)")
    click.echo("\nNOT PROVEN:")
    for each in gaps_of(verified):
        click.echo(f"- {printable(each)}")


def _result(verified: "Verified") -> str:
    if verified.pins is None:
        return "NOT VERIFIED: only the contents of the file"
    if verified.not_allowed:
        return f"NOT PROVEN: gaps that are not allowed: {', '.join(verified.not_allowed)}"
    text = "PROVEN"
    if verified.every_gap:
        text += f", except for gaps that are allowed: {', '.join(verified.every_gap)}"
    if verified.witnessed is None:
        text += "; NO WITNESSES: a fork is NOT excluded"
    return f"{text}; SIMULATION: proves nothing about hardware" if verified.is_simulated else text


def _fingerprint(option: str, text: str) -> str:
    if text and not _FINGERPRINT.fullmatch(text):
        raise WrongUsageError(f"{option} {text!r} is not a fingerprint", hint="pass 64 hex digits")
    return text.lower()


class _Files:
    """Reads the files of an auditor. ``read`` lists the files with their hashes, for the report."""

    def __init__(self) -> None:
        self.read: list[GivenFile] = []

    def identity(self, option: str, path: Path) -> "ExpectedIdentity":
        """Return the identity in the attestation file ``path``, and record the file for the report.

        ``option``: the option of the command that names the file.
        """
        from keyhouse.attestation import read_expected_identity

        with reading(str(path)) as content:
            self._record_file(option, path, content)
            return read_expected_identity(content)

    def policy(self, path: Path) -> "CosignaturePolicy":
        """Return the policy of witnesses in the file ``path``."""
        content = read_file(str(path))
        self._record_file("--policy", path, content)
        return policy_in(content)

    def _record_file(self, option: str, path: Path, content: bytes) -> None:
        from keyhouse.views.audit.inputs import GivenFile

        self.read.append(GivenFile.of(option, path.name, content))
