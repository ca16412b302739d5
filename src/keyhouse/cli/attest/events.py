"""`keyhouse attest events`: what the registers of a confidential VM stand for, by its event log."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec

from keyhouse.attestation import read_form
from keyhouse.attestation.quote.report import read_report
from keyhouse.attestation.quote.td import identity_of
from keyhouse.base.errors import RefusedError
from keyhouse.cli.attest.event_log import read_event_log, replayed
from keyhouse.cli.attest.quote_file import reading_quote
from keyhouse.cli.output.files import read_file
from keyhouse.cli.output.show import show_json, show_rows, show_table
from keyhouse.cli.parser import TRUST_FAILED, Argument, AsJson, Option


def events(
    log: Annotated[
        Path, Argument(metavar="LOG", help="the ACPI table CCEL of a confidential VM, a file")
    ],
    *,
    quote: Annotated[
        Path | None, Option("--quote", help="a quote of the VM: compare its registers")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what a confidential VM measured while it booted.

    That is its event log, and the registers that it gives.

    The log proves nothing alone: with --quote, its registers have to be those of the quote.

    Example: keyhouse attest events CCEL --quote vm.quote

    In the column of what was measured, (as logged) marks what the digest is not the plain SHA-384
    of. Exit code 4: a register of the quote is not what the log gives.
    """
    found = read_event_log(read_file(str(log)))
    registers = replayed(found)
    quoted = {} if quote is None else _registers(str(quote))
    equal = {name: quoted[name] == value for name, value in registers.items() if quoted}
    if as_json:
        show_json({"events": found, "registers": registers, "asInQuote": equal})
    else:
        rows = [
            (
                each.register,
                each.kind,
                each.digest,
                each.text + ("" if each.proven else "  (as logged)"),
            )
            for each in found
        ]
        show_table(("register", "event", "SHA-384", "measured"), rows)
        show_rows({name: value + _compared(equal.get(name)) for name, value in registers.items()})
    if not all(equal.values()):
        sys.exit(TRUST_FAILED)


def _compared(equal: bool | None) -> str:  # noqa: FBT001  private
    if equal is None:
        return ""
    return "  as in the quote" if equal else "  DIFFERS from the quote"


def _registers(quote: str) -> dict[str, str]:
    """Return the registers of a quote, which is not verified. Raises ``RefusedError``."""
    with reading_quote(quote) as content:
        td = read_report(read_form(content)).td
    if td is None:
        raise RefusedError("the quote is not of a confidential VM", hint="name another file")
    values: dict[str, str] = msgspec.to_builtins(identity_of(td))
    return values
