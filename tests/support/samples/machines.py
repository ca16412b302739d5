"""Two simulated machines of one vendor, and checks of quotes of both machines."""

from datetime import UTC, datetime
from functools import cache

from keyhouse.attestation import Collateral, Measurements, Verdict, Verifier
from keyhouse.attestation.quote.binding import Word, replica_report_data
from keyhouse.coordinator.hand_off.notes import Quoted
from keyhouse.server.services.quote_checks import ProcessMarks, QuoteChecks
from keyhouse_simulation import (
    COORDINATOR,
    Machine,
    QuoteParameters,
    SimulatedPlatform,
    make_machine,
)
from keyhouse_simulation.parameters import Pck, QuotedEnclave, TcbInfo

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTINGS = b"m" * 32
PPIDS = (b"SIMULATED PPID A", b"SIMULATED PPID B")
OTHER_CODE = Measurements(b"OTHER CODE, NOT KEYHOUSE'S OWN..", COORDINATOR.signer_id, 0x5111, 1)


@cache
def machines() -> tuple[Machine, Machine]:
    """Return two machines of one vendor."""
    first = make_machine(NOW, Pck(ppid=PPIDS[0]))
    return first, make_machine(NOW, Pck(ppid=PPIDS[1]), beside=first)


def platform(
    which: int = 0, enclave: QuotedEnclave | None = None, info: TcbInfo | None = None
) -> SimulatedPlatform:
    """Return the platform of machine ``which``; ``info``: the vendor's TCB info."""
    parameters = QuoteParameters(enclave=enclave or QuotedEnclave(), tcb_info=info or TcbInfo())
    return SimulatedPlatform(machines()[which], parameters, now=lambda: NOW)


@cache
def collateral() -> Collateral:
    """Return the vendor's collateral: the same for both machines."""
    return platform().collateral


def checks(marks: ProcessMarks | None = None, used: Collateral | None = None) -> QuoteChecks:
    """Return checks for quotes of both machines."""
    found = used or collateral()
    return QuoteChecks(platform().root_ca, lambda _: found, lambda: NOW, marks)


def verified(quote: bytes, used: Collateral | None = None) -> Verdict:
    """Verify ``quote`` of a machine; return the verdict."""
    return Verifier(platform().root_ca).verify(quote, used or collateral(), NOW)


def vouched(on: SimulatedPlatform, word: Word, message: bytes) -> bytes:
    """Return the note with a quote of ``on`` over ``word`` and ``message``."""
    return Quoted(message, on.quote(replica_report_data(word, message))).encode()
