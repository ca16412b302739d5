"""`keyhouse collateral`: fetch, show and check bundles of collateral.

A bundle is a file with the collateral of a kind of platform. Sites without a PCCS verify quotes
with such a file.
"""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.cli.options.pccs import PccsCaFile, PccsUrl, ca_of, vendor_root
from keyhouse.cli.output.files import reading, write_output
from keyhouse.cli.output.progress_bar import long_work
from keyhouse.cli.output.show import show_json, show_result
from keyhouse.cli.parser import Argument, AsJson, CommandGroup, Option, OptionGroup

if TYPE_CHECKING:
    from keyhouse.attestation import Collateral, CollateralFacts, PlatformKind

app = CommandGroup()

BundleFile = Annotated[str, Argument(metavar="FILE", help="a bundle; - for standard input")]
Root = Annotated[
    Path | None,
    Option(
        "--simulation-root",
        help="root certificate (PEM) of a SIMULATED platform's vendor (default: Intel's root)",
    ),
]

_FMSPC = re.compile(r"[0-9a-fA-F]{12}")


class PlatformKindOptions(OptionGroup, frozen=True, kw_only=True):
    """The options for a kind of platform: a quote from it, or its FMSPC (the processor family)."""

    quote: Annotated[str, Argument(metavar="QUOTE", help="file with a quote of the platform")] = ""
    fmspc: Annotated[
        str, Option("--fmspc", metavar="HEX", help="family of the platform, instead of a quote")
    ] = ""
    tee: Annotated[Literal["sgx", "tdx"], Option("--tee", help="with --fmspc: the kind of TEE")] = (
        "sgx"
    )
    ca: Annotated[
        Literal["platform", "processor"],
        Option("--ca", help="with --fmspc: the issuer of PCK certificates; servers have platform"),
    ] = "platform"

    def kind(self, root_ca: bytes) -> "PlatformKind":
        """Return the kind of platform in the options.

        The certificates of a quote's signing key (PCK) must end in the root ``root_ca``, DER.

        Raises ``RefusedError`` unless the options name either a quote or ``--fmspc``, and for an
        invalid value.
        """
        from keyhouse.attestation import PckCa, PlatformKind, Tee, platform_kind

        if bool(self.quote) == bool(self.fmspc):
            count = "two kinds of platform" if self.quote else "no kind of platform"
            raise RefusedError(
                f"the command line names {count}; expected either a file with a quote or --fmspc",
                hint="pass only the file, such as coordinator.quote, or only --fmspc 00906ED50000",
            )
        if self.quote:
            from keyhouse.cli.attest.quote_file import reading_quote

            with reading_quote(self.quote) as raw:
                return platform_kind(raw, root_ca)
        if not _FMSPC.fullmatch(self.fmspc):
            raise RefusedError(
                f"--fmspc {self.fmspc!r} is not an FMSPC",
                hint="pass 12 hexadecimal digits, such as --fmspc 00906ED50000",
            )
        return PlatformKind(Tee(self.tee), self.fmspc.lower(), PckCa(self.ca))


@app.command("fetch")
def fetch(
    platform: PlatformKindOptions,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    output: Annotated[
        str, Option("--output", "-o", metavar="FILE", help="new file instead of standard output")
    ] = "",
    simulation_root: Root = None,
    *,
    early: Annotated[
        bool,
        Option("--early", help="include a TCB recovery that is not in force yet, for a rehearsal"),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch the collateral of a kind of platform, and check it.

    The result is a bundle file, which also serves sites without a network.

    Example: keyhouse collateral fetch coordinator.quote --pccs https://pccs.example:8081 -o
    collateral.json
    """
    from keyhouse.attestation import write_collateral

    root_ca = vendor_root(simulation_root)
    if not pccs:
        raise RefusedError(
            "the command needs the URL of a PCCS", hint="pass --pccs https://pccs.example:8081"
        )
    kind = platform.kind(root_ca)
    request = _fetch(pccs, ca_of(pccs_ca), kind, root_ca, early=early)
    with long_work("fetching collateral", quiet=as_json):
        collateral, facts = asyncio.run(request)
    if output or not as_json:
        write_output(write_collateral(collateral), output)
    if as_json:
        show_json({"file": output} if output else msgspec.Raw(write_collateral(collateral)))
        return
    click.echo(f"for {kind}; {_end(facts)}", err=True)


@app.command("show")
def show(file: BundleFile, *, as_json: AsJson = False) -> None:
    """Print the contents of a bundle without a check.

    The output names the kind of platform and the time of expiry.

    Example: keyhouse collateral show collateral.json
    """
    from keyhouse.attestation import read_collateral, read_facts

    with reading(file) as content:
        facts = read_facts(read_collateral(content))
    rows = _rows(facts) | {"trust": "none: use check"}
    show_result(_as_object(facts), rows, as_json=as_json)


@app.command("check")
def check(
    file: BundleFile,
    quote: Annotated[
        Path | None, Option("--quote", help="also verify this quote with the bundle")
    ] = None,
    simulation_root: Root = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Check the signatures, revocation lists and times of a bundle.

    With --quote, the command also verifies the quote with the bundle.

    Example: keyhouse collateral check collateral.json --quote coordinator.quote
    """
    from keyhouse.attestation import Verifier, platform_kind, read_collateral, require_sound
    from keyhouse.attestation.collateral.facts import require_kind

    root_ca = vendor_root(simulation_root)
    with reading(file) as content:
        collateral = read_collateral(content)
    now = datetime.now(UTC)
    facts = require_sound(collateral, root_ca, now)
    rows = _rows(facts)
    result = _as_object(facts)
    if quote is not None:
        from keyhouse.cli.attest.quote_file import reading_quote

        with reading_quote(str(quote)) as raw:
            require_kind(facts, platform_kind(raw, root_ca))
            status = str(Verifier(root_ca).verify(raw, collateral, now).tcb_status)
        rows["quote"] = f"verifies: {status}"
        result["tcbStatus"] = status
    if simulation_root is not None:
        rows["trust"] = "SIMULATION: proves nothing about hardware"
    result["simulation"] = simulation_root is not None
    show_result(result, rows, as_json=as_json)


async def _fetch(
    url: str, ca_pem: bytes, kind: "PlatformKind", root_ca: bytes, *, early: bool
) -> "tuple[Collateral, CollateralFacts]":
    from keyhouse.attestation import require_sound
    from keyhouse.attestation.collateral.facts import require_kind
    from keyhouse.attestation.collateral.pccs import Pccs

    async with Pccs(url, ca_pem) as pccs:
        collateral = await pccs.fetch(kind, early=early)
    facts = require_sound(collateral, root_ca, datetime.now(UTC))
    require_kind(facts, kind)
    return collateral, facts


def _end(facts: "CollateralFacts") -> str:
    from keyhouse.attestation.collateral.facts import shown_time

    return f"expires at {shown_time(facts.expires)} ({facts.ends_first})"


def _rows(facts: "CollateralFacts") -> dict[str, str]:
    from keyhouse.attestation.collateral.facts import shown_time

    return {
        "platform": f"{facts.kind.tee.upper()}  FMSPC {facts.kind.fmspc}  {facts.kind.ca} CA",
        "issued": shown_time(facts.issued),
        "expires": f"{shown_time(facts.expires)}  {facts.ends_first}",
        "numbers": f"evaluation {facts.evaluation_number}, root list {facts.root_crl_number},"
        f" PCK list {facts.pck_crl_number}",
    }


def _as_object(facts: "CollateralFacts") -> dict[str, object]:
    from keyhouse.attestation.collateral.facts import shown_time

    return {
        "tee": str(facts.kind.tee),
        "fmspc": facts.kind.fmspc,
        "ca": str(facts.kind.ca),
        "issued": shown_time(facts.issued),
        "expires": shown_time(facts.expires),
        "endsFirst": facts.ends_first,
        "evaluationNumber": facts.evaluation_number,
        "rootCrlNumber": facts.root_crl_number,
        "pckCrlNumber": facts.pck_crl_number,
    }
