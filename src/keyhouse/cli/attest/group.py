"""`keyhouse attest explain`: a quote in words, and which packages would admit it, at any time."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from keyhouse import attestation
from keyhouse.attestation.collateral.amd import read_amd_path
from keyhouse.attestation.platforms.find import SIMULATED_AMD
from keyhouse.base.errors import RefusedError
from keyhouse.base.named_files import read_file
from keyhouse.cli.attest.events import events
from keyhouse.cli.attest.quote_explanation import Appraised, Explanation, Trust, explain_quote
from keyhouse.cli.attest.quote_file import reading_quote
from keyhouse.cli.manifest.file import open_manifest
from keyhouse.cli.options.pccs import vendor_root
from keyhouse.cli.output.files import reading
from keyhouse.cli.output.show import show_result
from keyhouse.cli.parser import REFUSED, TRUST_FAILED, Argument, AsJson, Group, Option, OptionGroup
from keyhouse.views.measurements import rows_of_vm

app = Group()
app.command("events")(events)


class AppraisalOptions(OptionGroup, frozen=True, kw_only=True):
    """The time of an appraisal, and what a quote is checked against."""

    collateral: Annotated[
        Path | None,
        Option(
            "--collateral",
            help="what verifies it: a bundle file (default with --simulation-root:"
            " collateral.json beside it)",
        ),
    ] = None
    amd_collateral: Annotated[
        Path | None,
        Option(
            "--amd-collateral",
            help="what verifies a report of SEV-SNP: a file as AMD gives it out, or a directory of"
            " them (default with --simulation-root: amd.pem beside it)",
        ),
    ] = None
    at: Annotated[
        str,
        Option(
            "--at", metavar="TIME", help="judge at this time: 2026-03-01 or 2026-03-01T12:00:00Z"
        ),
    ] = ""
    manifest: Annotated[
        Path | None,
        Option("--manifest", help="manifest file: say what each of its packages makes of it"),
    ] = None
    simulation_root: Annotated[
        Path | None,
        Option(
            "--simulation-root", help="the root certificate of a SIMULATED platform instead (PEM)"
        ),
    ] = None

    def explain(self, quote: bytes) -> Explanation:
        """Return what there is to say about ``quote``."""
        from keyhouse.manifest.check import check

        moment = _moment(self.at)
        checked = None
        if self.manifest is not None:
            given = open_manifest(str(self.manifest))
            with given.explained():
                checked = check(given.raw, now=datetime.now(UTC)).manifest
        trust = Trust(
            vendor_root(self.simulation_root), _bundle(self), _amd_roots(self), _amd_files(self)
        )
        return explain_quote(quote, trust, moment, checked)


@app.command("explain")
def explain(
    quote: Annotated[
        Path,
        Argument(metavar="QUOTE", help="file of a quote, binary or base64; - for standard input"),
    ],
    appraisal: AppraisalOptions,
    *,
    as_json: AsJson = False,
) -> None:
    """Print what a quote says, and which packages would admit it.

    It says whether the quote verifies, and of each package that does not admit it why.

    Example: keyhouse attest explain quote.bin --collateral tomorrow.json --manifest manifest.json

    Exit code 4: it does not verify, or was not verified. 1: no package of the manifest admits it.
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
    """Return the time that was given; a date is its first moment, UTC."""
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
        "--at is not a time with a zone", hint="2026-03-01, or 2026-03-01T12:00:00Z for UTC"
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
    """Return AMD's roots, or that of the simulated vendor of AMD's, which is for one line."""
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
    said, verdict, why = explanation.said, explanation.verdict, explanation.unverified
    rows = {"at": _time(explanation.at), "verified": "yes" if verdict else "NO"}
    if why is not None:
        rows["because"] = f"{why.message} ({why.hint})" if why.hint else why.message
    if verdict is not None:
        rows |= {**_platform(verdict), "collateral until": _time(verdict.freshness.expires)}
    claims = {
        "environment": said.tee.upper(),
        "UniqueID": said.unique_id,
        "SignerID": said.signer_id,
        "report data": said.report_data,
    }
    rows |= {name: value for name, value in claims.items() if value}
    if said.unique_id:
        rows["ProductID"] = str(said.product_id)
        rows["SecurityVersion"] = str(said.security_version)
    if explanation.vm is not None:
        rows |= rows_of_vm(explanation.vm)
    if explanation.service.strip("0"):
        rows["service TD"] = explanation.service
    rows["debug"] = "YES: anybody can read its memory" if said.debug else "no"
    packages = explanation.packages.items()
    kind = "enclave" if explanation.vm is None else "confidential VM"
    return rows | {f"package {name}": _package(appraised, kind) for name, appraised in packages}


def _platform(verdict: attestation.Verdict) -> dict[str, str]:
    if verdict.tcb_status is None or verdict.tcb_date is None:
        status = "AMD states no status: MinimumTCB of a package says what is admitted"
        return {"TCB status": status, "platform": f"CHIP_ID {verdict.ppid.hex()}"}
    return {
        "TCB status": verdict.tcb_status,
        "advisories": ", ".join(verdict.advisories) or "none",
        "TCB date": _time(verdict.tcb_date),
        "platform": f"FMSPC {verdict.fmspc.hex()}, PPID {verdict.ppid.hex()}",
    }


def _package(appraised: Appraised, kind: str) -> str:
    marbles = ", ".join(appraised.marbles) or "no marble"
    if appraised.admitted:
        return f"admits it (for {marbles})"
    reasons = "; ".join(f"{each.rule}: {each.problem}" for each in appraised.reasons)
    word = "STOPS it" if appraised.is_enclave else f"is for another {kind}"
    return f"{word} (for {marbles}): {reasons}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
