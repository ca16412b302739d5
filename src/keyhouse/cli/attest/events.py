"""`keyhouse attest events`: print the boot measurements of a confidential VM from its event log.

Firmware and boot loader extend the registers RTMR0 to RTMR3 with the digest of each measured
object. A register shows only the result. The event log lists each digest. A replay of
the log computes the registers, so a verified quote with equal registers proves the digests.

The ACPI table CCEL contains the log: a header in the format of TPM 1.2, then events in the format
of TPM 2.0. ::

    header   register 4 | type 4 | digest 20 | length 4 | "Spec ID Event03" NUL | 8 bytes
             | count 4 | { algorithm 2, size 2 } for each | length 1, vendor's bytes
    event    register 4 | type 4 | count 4 | { algorithm 2, digest } for each | length 4, data

Numbers are little-endian; register 1 is RTMR0. The table may be longer than the log: the same byte,
0xFF or 0, fills the rest. Sources: TCG PC Client Platform Firmware Profile, "Event Logging"; UEFI,
"Confidential Computing".
"""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from keyhouse.attestation import read_form
from keyhouse.attestation.kinds.dcap.td import TdMeasurements
from keyhouse.attestation.kinds.table import read_report
from keyhouse.base.byte_reader import ByteReader, LayoutError
from keyhouse.base.errors import RefusedError
from keyhouse.base.user_files import read_file
from keyhouse.cli.attest.quote_file import reading_quote
from keyhouse.cli.output.show import show_json, show_rows, show_table
from keyhouse.cli.parser import TRUST_FAILED, Argument, AsJson, Option

_SIGNATURE: Final = b"Spec ID Event03\0"
_SHA384: Final = 0x0C  # TCG algorithm registry
_SIZE: Final = 48  # bytes of SHA-384
_REGISTERS: Final = {number + 1: f"RTMR{number}" for number in range(4)}
_NO_ACTION: Final = 3  # TCG PC Client profile: EV_NO_ACTION
_MOST_TEXT: Final = 200  # characters of an event's text; the rest is cut
_KINDS: Final = {
    0x01: "POST_CODE",
    0x04: "SEPARATOR",
    0x05: "ACTION",
    0x06: "EVENT_TAG",
    0x08: "S_CRTM_VERSION",
    0x0A: "PLATFORM_CONFIG_FLAGS",
    0x0D: "IPL",
    0x80000001: "EFI_VARIABLE_DRIVER_CONFIG",
    0x80000002: "EFI_VARIABLE_BOOT",
    0x80000003: "EFI_BOOT_SERVICES_APPLICATION",
    0x80000004: "EFI_BOOT_SERVICES_DRIVER",
    0x80000005: "EFI_RUNTIME_SERVICES_DRIVER",
    0x80000006: "EFI_GPT_EVENT",
    0x80000007: "EFI_ACTION",
    0x80000008: "EFI_PLATFORM_FIRMWARE_BLOB",
    0x80000009: "EFI_HANDOFF_TABLES",
    0x8000000A: "EFI_PLATFORM_FIRMWARE_BLOB2",
    0x8000000B: "EFI_HANDOFF_TABLES2",
    0x8000000C: "EFI_VARIABLE_BOOT2",
    0x800000E0: "EFI_VARIABLE_AUTHORITY",
}


class EventLogUnusableError(RefusedError):
    """The bytes are not the event log of a confidential VM."""

    code = "event-log-unusable"


class BootEvent(msgspec.Struct, frozen=True):
    """One measurement of the boot.

    Only ``digest`` extends ``register``. ``kind`` is the type of the event, a name of the UEFI
    specification. ``text`` describes the data of the event. If ``proven``, ``digest`` is the
    SHA-384 of these data.
    """

    register: str  # RTMR0 to RTMR3
    kind: str
    digest: str  # SHA-384, hex
    text: str
    proven: bool


def read_event_log(raw: bytes) -> list[BootEvent]:
    """Return the measurements in the event log ``raw``, oldest first.

    Raises ``EventLogUnusableError``.
    """
    fields = ByteReader(raw, "little")
    try:
        sizes = _digest_sizes(fields)
        events = []
        while not _only_fills(raw, fields.position):
            event = _event(fields, sizes)
            events += [] if event is None else [event]
    except LayoutError as fault:
        raise EventLogUnusableError(
            f"the file is not the event log of a confidential VM: {fault}",
            hint="pass a copy of /sys/firmware/acpi/tables/data/CCEL from a TDX VM with Linux",
        ) from None
    return events


def replay(events: Sequence[BootEvent]) -> dict[str, str]:
    """Return the value (hex) of each register after ``events``, by the name of the register.

    Registers begin with zeros. An event replaces the register's value by the SHA-384 of this value
    and the event's digest.
    """
    values: dict[str, bytes] = {}
    for event in events:
        before = values.get(event.register, bytes(_SIZE))
        values[event.register] = hashlib.sha384(before + bytes.fromhex(event.digest)).digest()
    return {register: value.hex() for register, value in sorted(values.items())}


def _digest_sizes(fields: ByteReader) -> dict[int, int]:
    fields.read(4, "header")
    kind = fields.number(4, "header")
    fields.read(20, "header")
    header = ByteReader(fields.framed(4, "header"), "little")
    if kind != _NO_ACTION or header.read(len(_SIGNATURE), "header") != _SIGNATURE:
        raise LayoutError("the first event is not the header of an event log (Spec ID Event03)")
    header.read(8, "header")
    count = header.number(4, "header")
    pairs = header.read(4 * count, "header")
    header.framed(1, "header")
    header.finish("header")
    numbers = [int.from_bytes(pairs[at : at + 2], "little") for at in range(0, len(pairs), 2)]
    sizes = dict(zip(numbers[::2], numbers[1::2], strict=True))
    if sizes.get(_SHA384) != _SIZE:
        raise LayoutError("the header does not list SHA-384 digests of 48 bytes")
    return sizes


def _only_fills(raw: bytes, at: int) -> bool:
    """Return whether only fill bytes follow in the table ``raw`` from the byte offset ``at`` on."""
    begin = raw[at : at + 8]
    return any(not begin.strip(fill) and not raw[at:].strip(fill) for fill in (b"\xff", b"\0"))


def _event(fields: ByteReader, sizes: dict[int, int]) -> BootEvent | None:
    """Read and return the next event in ``fields``, the bytes of an event log.

    None means the type EV_NO_ACTION: such an event extends no register. ``sizes``: the digest size
    in bytes of each algorithm.
    """
    index, kind = fields.number(4, "event"), fields.number(4, "event")
    digests = dict(_digests(fields, sizes))
    data = fields.framed(4, "event")
    if kind == _NO_ACTION:
        return None
    if index not in _REGISTERS or _SHA384 not in digests:
        raise LayoutError("an event must extend RTMR0, RTMR1, RTMR2 or RTMR3 with a SHA-384 digest")
    digest = digests[_SHA384]
    return BootEvent(
        register=_REGISTERS[index],
        kind=_KINDS.get(kind, f"{kind:#x}"),
        digest=digest.hex(),
        text=_text(data),
        proven=hashlib.sha384(data).digest() == digest,
    )


def _digests(fields: ByteReader, sizes: dict[int, int]) -> Iterator[tuple[int, bytes]]:
    for _ in range(min(fields.number(4, "event"), len(sizes) + 1)):
        algorithm = fields.number(2, "event")
        if algorithm not in sizes:
            raise LayoutError(
                f"an event has a digest of the algorithm {algorithm:#x} outside the header's list"
            )
        yield algorithm, fields.read(sizes[algorithm], "event")


def _text(data: bytes) -> str:
    """Return an event's ``data`` for people: ASCII or UTF-16 as text, else the size in bytes."""
    for encoding in ("ascii", "utf-16-le"):
        try:
            text = data.decode(encoding).rstrip("\0")
        except UnicodeDecodeError:
            continue
        if text and text.isascii() and text.isprintable():
            return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "..."
    return f"{len(data)} bytes"


def events(
    log: Annotated[
        Path, Argument(metavar="LOG", help="file with the ACPI table CCEL of a confidential VM")
    ],
    *,
    quote: Annotated[
        Path | None, Option("--quote", help="a quote of the VM: compare the registers")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the boot measurements of a confidential VM.

    The command reads the event log, and computes the registers that result from the log.

    The log alone proves nothing. With --quote, the command compares the registers with those of the
    quote. The command does not verify the quote: use keyhouse attest explain.

    Example: keyhouse attest events CCEL --quote vm.quote

    The mark (as logged) means that the digest is not the plain SHA-384 of the described data. Exit
    code 4: a register of the quote differs.
    """
    measured = read_event_log(read_file(str(log)))
    registers = replay(measured)
    quoted = {} if quote is None else _registers(str(quote))
    equal = {name: quoted[name] == value for name, value in registers.items() if quoted}
    if as_json:
        show_json({"events": measured, "registers": registers, "asInQuote": equal})
    else:
        rows = [
            (
                each.register,
                each.kind,
                each.digest,
                each.text + ("" if each.proven else "  (as logged)"),
            )
            for each in measured
        ]
        show_table(("register", "event", "SHA-384", "measured"), rows)
        show_rows({name: value + _comparison(equal.get(name)) for name, value in registers.items()})
    if not all(equal.values()):
        sys.exit(TRUST_FAILED)


def _comparison(equal: bool | None) -> str:  # noqa: FBT001  private
    if equal is None:
        return ""
    return "  as in the quote" if equal else "  DIFFERS from the quote"


def _registers(quote: str) -> dict[str, str]:
    """Return the registers (hex) in the quote of the file ``quote``, without verification.

    Raises ``RefusedError``.
    """
    with reading_quote(quote) as content:
        td = read_report(read_form(content)).measurements
    if not isinstance(td, TdMeasurements):
        raise RefusedError(
            f"the quote in {quote} is not a quote of a TDX VM",
            hint="pass --quote with a quote of the VM that has this event log",
        )
    values: dict[str, str] = msgspec.to_builtins(td.identity)
    return values
