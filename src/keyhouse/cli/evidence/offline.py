"""`keyhouse evidence verify | show`: what a file proves, with no network."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click
import msgspec

from keyhouse.base.printable import printable
from keyhouse.cli.log.policy import read_policy
from keyhouse.cli.options.pccs import vendor_root
from keyhouse.cli.output.bar import long_work
from keyhouse.cli.output.files import read_file, reading, write_output
from keyhouse.cli.output.show import show_json, show_rows, show_table
from keyhouse.cli.parser import Argument, AsJson, Option, OptionGroup, WrongUsageError

if TYPE_CHECKING:
    from keyhouse.attestation import ExpectedIdentity
    from keyhouse.evidence.pins import Pins
    from keyhouse.evidence.verify import Verified

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
            raise WrongUsageError(
                "--max-age has no effect here", hint="only witnesses prove a time: use --policy"
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


def show(file: EvidenceFile, html: Page = "", *, as_json: AsJson = False) -> None:
    """Print what an evidence file says; nobody vouches for it.

    That is what verify does. Its form, the tree, the log's signatures and the order of the history
    are checked.

    Example: keyhouse evidence show deployment.evidence.json
    """
    _show(_verified(file, None, quiet=as_json), html, as_json=as_json)


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
