"""The event log of a confidential VM replays to the registers of its quote, or is refused."""

import hashlib
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from support.process.command_tree import typed
from support.samples.confidential_vms import QUOTE
from support.samples.hardware import SGX_QUOTE

from keyhouse.cli.attest.events import EventLogUnusableError, read_event_log, replay

SHA384, SHA256 = 0x0C, 0x0B
COMMAND_LINE = b"root=/dev/dm-0 ro\0"


def header(*algorithms: tuple[int, int]) -> bytes:
    pairs = b"".join(struct.pack("<HH", *pair) for pair in algorithms)
    data = b"Spec ID Event03\0" + bytes(8) + struct.pack("<I", len(algorithms)) + pairs + b"\0"
    return struct.pack("<II20sI", 0, 3, b"", len(data)) + data


def event(index: int, kind: int, data: bytes, *, measured: bytes | None = None) -> bytes:
    digest = hashlib.sha384(data if measured is None else measured).digest()
    return (
        struct.pack("<IIIH", index, kind, 1, SHA384) + digest + struct.pack("<I", len(data)) + data
    )


LOG = header((SHA384, 48)) + b"".join(
    (
        event(0, 3, b"not measured"),
        event(1, 0x80000001, b"\xff" * 60),
        event(2, 0x80000003, b"path of a kernel", measured=b"the kernel itself"),
        event(3, 0x0D, COMMAND_LINE),
        event(3, 0x0D, "initrd".encode("utf-16-le")),
        event(1, 0x04, bytes(4)),
    )
)


def extended(*measured: bytes) -> str:
    value = bytes(48)
    for each in measured:
        value = hashlib.sha384(value + hashlib.sha384(each).digest()).digest()
    return value.hex()


REGISTERS = {
    "RTMR0": extended(b"\xff" * 60, bytes(4)),
    "RTMR1": extended(b"the kernel itself"),
    "RTMR2": extended(COMMAND_LINE, "initrd".encode("utf-16-le")),
}


def test_events_are_told_with_what_is_proven_of_them() -> None:
    events = read_event_log(LOG)

    assert [(each.register, each.kind, each.text, each.proven) for each in events] == [
        ("RTMR0", "EFI_VARIABLE_DRIVER_CONFIG", "60 bytes", True),
        ("RTMR1", "EFI_BOOT_SERVICES_APPLICATION", "path of a kernel", False),
        ("RTMR2", "IPL", "root=/dev/dm-0 ro", True),
        ("RTMR2", "IPL", "initrd", True),
        ("RTMR0", "SEPARATOR", "4 bytes", True),
    ]
    assert events[1].digest == hashlib.sha384(b"the kernel itself").hexdigest()
    assert replay(events) == REGISTERS


@pytest.mark.parametrize("rest", [b"", b"\xff" * 100, bytes(100)])
def test_what_fills_the_table_is_no_event(rest: bytes) -> None:
    assert read_event_log(LOG + rest) == read_event_log(LOG)


def test_digests_of_other_algorithms_are_passed_over() -> None:
    both = struct.pack("<III", 2, 4, 2) + struct.pack("<H", SHA256) + bytes(32)
    both += struct.pack("<H", SHA384) + hashlib.sha384(b"x").digest() + struct.pack("<I", 1) + b"x"
    [found] = read_event_log(header((SHA256, 32), (SHA384, 48)) + both)
    assert (found.register, found.proven) == ("RTMR1", True)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "the data end inside the header"),
        (b"junk" * 40, "the data end inside the header"),
        (event(1, 4, b""), "the data end inside the header"),
        (header((SHA256, 32)), "does not list SHA-384"),
        (header((SHA384, 32)), "does not list SHA-384"),
        (header((SHA384, 48)).replace(b"Event03", b"Event02"), "is not the header of an event log"),
        (LOG[:-1], "the data end inside the event"),
        (LOG + b"\xff" * 40 + b"\1", "outside the header's list"),
        (LOG + event(5, 4, b""), "must extend RTMR0"),
        (LOG + event(0, 4, b""), "must extend RTMR0"),
        (LOG + struct.pack("<IIII", 1, 4, 0, 0), "must extend RTMR0"),
        (LOG + struct.pack("<IIIH", 1, 4, 1, SHA256) + bytes(32), "outside the header's list"),
    ],
)
def test_what_is_no_event_log_is_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(EventLogUnusableError, match=problem):
        read_event_log(raw)


@given(st.binary(max_size=200), st.integers(0, len(LOG)), st.integers(0, 60))
def test_arbitrary_bytes_only_ever_raise_a_refusal(junk: bytes, at: int, skip: int) -> None:
    try:
        read_event_log(LOG[:at] + junk + LOG[at + skip :])
    except EventLogUnusableError:
        return


def of_vm(**registers: str) -> bytes:
    """Return the quote of a VM with these registers; its signature does not hold."""
    raw = bytearray(QUOTE)
    for name, value in registers.items():
        at = 48 + 328 + 48 * int(name[-1])
        raw[at : at + 48] = bytes.fromhex(value)
    return bytes(raw)


def test_registers_are_compared_with_those_of_a_quote(tmp_path: Path) -> None:
    log, quote = tmp_path / "CCEL", tmp_path / "vm.quote"
    log.write_bytes(LOG)
    quote.write_bytes(of_vm(**REGISTERS))

    ended = typed("attest", "events", str(log), "--quote", str(quote))
    assert ended.exit_code == 0, ended.stderr
    assert f"RTMR1  {REGISTERS['RTMR1']}  as in the quote" in ended.stdout
    assert "path of a kernel  (as logged)" in ended.stdout
    assert "root=/dev/dm-0 ro\n" in ended.stdout

    quote.write_bytes(of_vm(**REGISTERS | {"RTMR2": "ab" * 48}))
    ended = typed("attest", "events", str(log), "--quote", str(quote))
    assert ended.exit_code == 4
    assert f"RTMR2  {REGISTERS['RTMR2']}  DIFFERS from the quote" in ended.stdout
    told = json.loads(typed("attest", "events", str(log), "--quote", str(quote), "--json").stdout)
    assert told["asInQuote"] == {"RTMR0": True, "RTMR1": True, "RTMR2": False}

    alone = json.loads(typed("attest", "events", str(log), "--json").stdout)
    assert (alone["registers"], alone["asInQuote"]) == (REGISTERS, {})


def test_only_a_confidential_vm_has_registers(tmp_path: Path) -> None:
    log, quote = tmp_path / "CCEL", tmp_path / "quote"
    log.write_bytes(LOG)
    quote.write_bytes(SGX_QUOTE)

    ended = typed("attest", "events", str(log), "--quote", str(quote))

    assert ended.exit_code == 1
    assert "not a quote of a TDX VM" in ended.stderr
