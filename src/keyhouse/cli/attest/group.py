"""`keyhouse attest explain`: show a quote in words, and the packages that admit it at a time."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from keyhouse import attestation
from keyhouse.attestation.collateral.amd import read_amd_path
from keyhouse.attestation.platforms.find import SIMULATED_AMD
from keyhouse.base.errors import RefusedError
from keyhouse.base.user_files import read_file
from keyhouse.cli.attest.events import events
from keyhouse.cli.attest.quote_explanation import Appraisal, Explanation, QuoteTrust, explain_quote
from keyhouse.cli.attest.quote_file import reading_quote
from keyhouse.cli.manifest.file import open_manifest
from keyhouse.cli.options.pccs import vendor_root
from keyhouse.cli.output.files import reading
from keyhouse.cli.output.show import show_result
from keyhouse.cli.parser import (
    REFUSED,
    TRUST_FAILED,
    Argument,
    AsJson,
    CommandGroup,
    Option,
    OptionGroup,
)
from keyhouse.views.measurements import rows_of_vm

app = CommandGroup()
app.command("events")(events)


class AppraisalOptions(OptionGroup, frozen=True, kw_only=True):
    """The options of an explanation: the time, the collateral, the roots, and the manifest."""

    collateral: Annotated[
        Path | None,
        Option(
            "--collateral",
            help="bundle file to verify the quote (default with --simulation-root:"
            " collateral.json in the same folder)",
        ),
    ] = None
    amd_collateral: Annotated[
        Path | None,
        Option(
            "--amd-collateral",
            help="file in AMD's format to verify a report of SEV-SNP, or a directory of such files"
            " (default with --simulation-root: amd.pem in the same folder)",
        ),
    ] = None
    at: Annotated[
        str,
        Option(
            "--at",
            metavar="TIME",
            help="verify for this time (default: now): 2026-03-01 or 2026-03-01T12:00:00Z",
        ),
    ] = ""
    manifest: Annotated[
        Path | None,
        Option("--manifest", help="manifest file: state whether each package admits the quote"),
    ] = None
    simulation_root: Annotated[
        Path | None,
        Option(
            "--simulation-root",
            help="root certificate (PEM) of a SIMULATED platform's vendor, instead of Intel's and"
            " AMD's",
        ),
    ] = None

    def explain(self, quote: bytes) -> Explanation:
        """Verify ``quote`` with the time, collateral and root of the options; explain the result.

        With ``--manifest``, the explanation has the decision of each package.
        """
        from keyhouse.manifest.check import check

        moment = _moment(self.at)
        checked = None
        if self.manifest is not None:
            source = open_manifest(str(self.manifest))
            with source.explained():
                checked = check(source.raw, now=datetime.now(UTC)).manifest
        trust = QuoteTrust(
            vendor_root(self.simulation_root), _bundle(self), _amd_roots(self), _amd_files(self)
        )
        return explain_quote(quote, trust, moment, checked)


@app.command("explain")
def explain(
    quote: Annotated[
        Path,
        Argument(
            metavar="QUOTE",
            help="file with a quote, binary or base64, with or without the 16-byte header; - for"
            " standard input",
        ),
    ],
    appraisal: AppraisalOptions,
    *,
    as_json: AsJson = False,
) -> None:
    """Print the contents of a quote, and the packages that would admit it.

    The output states whether the quote verifies, and for each package the reasons of a refusal.

    Example: keyhouse attest explain quote.bin --collateral tomorrow.json --manifest manifest.json

    Exit code 4: the quote does not verify, or you named no collateral for its kind. Exit code 1: no
    package of the manifest admits the quote.
    """
    with reading_quote(str(quote)) as content:
        explanation = appraisal.explain(content)
    show_result(explanation.as_json(), _rows(explanation), as_json=as_json)
    if explanation.verdict is None:
        sys.exit(TRUST_FAILED)
    admitted = any(each.admitted for each in explanation.packages.values())
    if appraisal.manifest is not None and not admitted:
        sys.exit(REFUSED)


def _moment(text: str) -> datetime:
    """Return the time in ``text``, the value of ``--at``; "" means now.

    A date without a time means 00:00 UTC. Raises ``RefusedError``.
    """
    if not text:
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(text)
        is_date = len(text) == len("2026-03-01")
        moment = moment.replace(tzinfo=UTC) if is_date and not moment.tzinfo else moment
        if moment.tzinfo is not None and moment.timestamp() >= 0:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise RefusedError(
        f"--at {text!r} is not a date or a time with a zone, from 1970 on",
        hint="pass a date such as 2026-03-01, or a time such as 2026-03-01T12:00:00Z (UTC)",
    )


def _bundle(appraisal: AppraisalOptions) -> attestation.Collateral | None:
    file = appraisal.collateral
    if file is None and appraisal.simulation_root is not None:
        file = appraisal.simulation_root.with_name("collateral.json")
    if file is None:
        return None
    with reading(str(file)) as content:
        return attestation.read_collateral(content)


def _amd_roots(appraisal: AppraisalOptions) -> Mapping[str, bytes]:
    """Return AMD's root certificates by product line, or the root of the simulated AMD.

    With ``--simulation-root`` in ``appraisal``, the result is the simulated AMD's root from the
    same folder, for a single product line. The result is empty if the folder has no such root.
    """
    if appraisal.simulation_root is None:
        return attestation.AMD_ROOTS
    path = appraisal.simulation_root.with_name(SIMULATED_AMD.root)
    if not path.exists():
        return {}
    (root,) = attestation.read_amd_collateral([read_file(str(path))]).certificates
    return {SIMULATED_AMD.product: root}


def _amd_files(appraisal: AppraisalOptions) -> attestation.AmdCollateral | None:
    path = appraisal.amd_collateral
    if path is None and appraisal.simulation_root is not None:
        beside = appraisal.simulation_root.with_name(SIMULATED_AMD.collateral)
        path = beside if beside.exists() else None
    return None if path is None else read_amd_path(path)


def _rows(explanation: Explanation) -> dict[str, str]:
    report, verdict, why = explanation.claims, explanation.verdict, explanation.failure
    rows = {"at": _time(explanation.at), "verified": "yes" if verdict else "NO"}
    if why is not None:
        rows["because"] = f"{why.message} ({why.hint})" if why.hint else why.message
    if verdict is not None:
        rows |= {**_platform(verdict), "collateral until": _time(verdict.freshness.expires)}
    claims = {
        "environment": report.tee.upper(),
        "UniqueID": report.unique_id,
        "SignerID": report.signer_id,
        "report data": report.report_data,
    }
    rows |= {name: value for name, value in claims.items() if value}
    if report.unique_id:
        rows["ProductID"] = str(report.product_id)
        rows["SecurityVersion"] = str(report.security_version)
    if explanation.vm is not None:
        rows |= rows_of_vm(explanation.vm)
    if explanation.service.strip("0"):
        rows["service TD"] = explanation.service
    rows["debug"] = "YES: the host can read its memory" if report.debug else "no"
    packages = explanation.packages.items()
    kind = "enclave" if explanation.vm is None else "confidential VM"
    return rows | {f"package {name}": _package(appraised, kind) for name, appraised in packages}


def _platform(verdict: attestation.Verdict) -> dict[str, str]:
    if verdict.tcb_status is None or verdict.tcb_date is None:
        status = "none: AMD states no status; MinimumTCB of a package decides"
        return {"TCB status": status, "platform": f"CHIP_ID {verdict.ppid.hex()}"}
    return {
        "TCB status": verdict.tcb_status,
        "advisories": ", ".join(verdict.advisories) or "none",
        "TCB date": _time(verdict.tcb_date),
        "platform": f"FMSPC {verdict.fmspc.hex()}, PPID {verdict.ppid.hex()}",
    }


def _package(appraisal: Appraisal, kind: str) -> str:
    marbles = ", ".join(appraisal.marbles) or "no marble"
    if appraisal.admitted:
        return f"admits it (for {marbles})"
    reasons = "; ".join(f"{each.rule}: {each.problem}" for each in appraisal.reasons)
    word = "STOPS it" if appraisal.is_enclave else f"is for another {kind}"
    return f"{word} (for {marbles}): {reasons}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
