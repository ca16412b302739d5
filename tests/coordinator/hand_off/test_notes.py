"""The notes between replicas: only their exact bytes are valid."""

import hashlib
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, strategies as st

from keyhouse.attestation import IdentityRefusedError, quote_binding, report_data
from keyhouse.attestation.quote.binding import (
    binds_replica,
    head_report_data,
    replica_report_data,
    require_binding,
    start_report_data,
)
from keyhouse.coordinator.hand_off.notes import (
    LONGEST_NOTE,
    Ask,
    Give,
    Membership,
    NoteProblem,
    NoteRefusedError,
    Quoted,
    Switch,
    read_quoted,
)
from keyhouse.journal import Position

PLACE = Position(3, 77, bytes(range(32)))
ASK = Ask(
    store_id=b"s" * 16,
    instance=b"i" * 16,
    nonce=b"n" * 32,
    kem=b"k" * 1216,
    signing=b"e" * 32,
    settings=b"m" * 32,
    known=PLACE,
    level=1,
    version="0.1.0",
)
GIVE = Give(
    ask=b"a" * 32,
    store_id=b"s" * 16,
    giver=b"g" * 16,
    root=b"r" * 32,
    place=PLACE,
    sealed=b"x" * 1168,
)
SWITCH = Switch(
    store_id=b"s" * 16,
    writer=b"w" * 16,
    reader=b"i" * 16,
    after=PLACE,
    epoch=4,
    key_check=b"c" * 32,
    sealed=b"x" * 1168,
    signature=b"S" * 64,
)
MEMBER = Membership(
    store_id=b"s" * 16,
    instance=b"i" * 16,
    kem=b"k" * 1216,
    signing=b"e" * 32,
    settings=b"m" * 32,
    level=1,
)
FRESH = msgspec.structs.replace(ASK, known=None)
_PLACE = bytes(7) + b"\3" + bytes(7) + b"M" + bytes(range(32))

Note = Ask | Give | Membership | Switch
READERS: dict[str, tuple[Note, Callable[[bytes], Note]]] = {
    "ask": (ASK, Ask.read),
    "ask of nothing": (FRESH, Ask.read),
    "give": (GIVE, Give.read),
    "member": (MEMBER, Membership.read),
    "switch": (SWITCH, Switch.read),
}
each_kind = pytest.mark.parametrize(("note", "read"), READERS.values(), ids=READERS)


def test_an_ask_has_these_bytes() -> None:
    start = b"KEYHASK\1" + b"s" * 16 + b"i" * 16 + b"n" * 32 + b"k" * 1216 + b"e" * 32 + b"m" * 32

    assert ASK.encode() == start + b"\1" + _PLACE + b"\0\0\0\1" + b"\x050.1.0"
    assert FRESH.encode() == start + bytes(49) + b"\0\0\0\1" + b"\x050.1.0"


def test_a_give_has_these_bytes() -> None:
    head = b"KEYHGIV\1" + b"a" * 32 + b"s" * 16 + b"g" * 16 + b"r" * 32 + _PLACE

    assert GIVE.encode() == head + b"x" * 1168
    assert GIVE.info == b"keyhouse hand-off v1\0" + head


def test_a_note_of_a_member_has_these_bytes() -> None:
    keys = b"k" * 1216 + b"e" * 32

    assert MEMBER.encode() == (
        b"KEYHMEM\1" + b"s" * 16 + b"i" * 16 + keys + b"m" * 32 + b"\0\0\0\1"
    )


def test_a_switch_has_these_bytes() -> None:
    ends = bytes(7) + b"\4" + b"c" * 32
    head = b"KEYHSWI\1" + b"s" * 16 + b"w" * 16 + b"i" * 16 + _PLACE + ends

    assert SWITCH.encode() == head + b"x" * 1168 + b"S" * 64
    assert SWITCH.info == b"keyhouse switch key v1\0" + head
    assert SWITCH.signed == b"keyhouse switch v1\0" + head + b"x" * 1168


def test_the_quote_of_a_message_binds_it_with_its_length_and_kind() -> None:
    first = hashlib.sha256(b"keyhouse hand-off v1 ask\0" + b"\0\0\0\3abc").digest()
    second = hashlib.sha256(b"keyhouse replica v1\0").digest()

    assert replica_report_data("ask", b"abc") == first + second
    assert binds_replica(first + second, "ask", b"abc")
    others = {"give": b"abc", "member": b"abc", "ask": b"abd"}
    assert not any(binds_replica(first + second, word, raw) for word, raw in others.items())  # type: ignore[arg-type]
    assert not binds_replica(report_data(first), "ask", b"abc")
    assert not binds_replica(first, "ask", b"abc")
    assert not binds_replica(second + first, "ask", b"abc")


@pytest.mark.parametrize("message", [b"", b"0\x82root certificate", b"0\x82root certificatenonce"])
def test_the_quote_of_a_message_is_not_one_over_a_root_certificate(message: bytes) -> None:
    data = replica_report_data("ask", message)

    about_the_log = (
        start_report_data(message, b"i" * 16, 1, b"t" * 32),
        head_report_data(message, b"nonce", b"head"),
    )
    assert not any(binds_replica(other, "ask", message) for other in about_the_log)
    for root, nonce in ((message, b""), (b"0\x82root certificate", b"nonce")):
        with pytest.raises(IdentityRefusedError):
            require_binding(data, quote_binding(root, nonce))


@each_kind
def test_a_note_comes_back_as_it_was(note: Note, read: Callable[[bytes], Note]) -> None:
    assert read(note.encode()) == note


@each_kind
def test_a_note_that_is_cut_or_continued_is_refused(
    note: Note, read: Callable[[bytes], Note]
) -> None:
    raw = note.encode()
    for changed in [raw[:size] for size in range(len(raw))] + [raw + b"\0", raw * 4, b""]:
        with pytest.raises(NoteRefusedError) as refused:
            read(changed)
        assert refused.value.reason is NoteProblem.MALFORMED


@each_kind
def test_every_byte_of_a_note_counts(note: Note, read: Callable[[bytes], Note]) -> None:
    """A note with a flipped bit is refused, or is another note without quote and signature."""
    raw = note.encode()
    for at in range(len(raw)):
        flipped = raw[:at] + bytes([raw[at] ^ 0x80]) + raw[at + 1 :]
        try:
            other = read(flipped)
        except NoteRefusedError:
            continue
        assert other != note
        assert other.encode() == flipped


@pytest.mark.parametrize("read", [Ask.read, Give.read, Switch.read])
def test_a_note_of_another_kind_or_format_is_refused(read: Callable[[bytes], Note]) -> None:
    own, others = b"", []
    for note, reader in READERS.values():
        if reader == read:
            own = note.encode()
        else:
            others.append(note.encode())
    newer = own[:7] + b"\2" + own[8:]

    for raw in (*others, newer):
        with pytest.raises(NoteRefusedError, match="expected kind and format"):
            read(raw)


@pytest.mark.parametrize(
    ("known", "level", "version"),
    [
        (b"\2" + _PLACE, b"\0\0\0\1", b"\x050.1.0"),
        (bytes(48) + b"\1", b"\0\0\0\1", b"\x050.1.0"),
        (b"\1" + bytes(8) + _PLACE[8:], b"\0\0\0\1", b"\x050.1.0"),
        (b"\1" + _PLACE[:8] + bytes(8) + _PLACE[16:], b"\0\0\0\1", b"\x050.1.0"),
        (b"\1" + b"\x80" + _PLACE[1:], b"\0\0\0\1", b"\x050.1.0"),
        (b"\1" + _PLACE, b"\0\0\0\1", b"\0"),
        (b"\1" + _PLACE, b"\0\0\0\1", b"\x050.1\n0"),
        (b"\1" + _PLACE, b"\0\0\0\1", "\x06 0.1é".encode()),
    ],
    ids=["mark", "rest", "epoch 0", "sequence 0", "huge", "no version", "line", "not ASCII"],
)
def test_what_an_ask_cannot_say_is_refused(known: bytes, level: bytes, version: bytes) -> None:
    raw = ASK.encode()[:1352] + known + level + version

    with pytest.raises(NoteRefusedError) as refused:
        Ask.read(raw)

    assert refused.value.reason is NoteProblem.MALFORMED


def test_message_and_quote_stand_one_after_the_other_with_their_lengths() -> None:
    note = Quoted(b"message", b"quote")

    assert note.encode() == b"\0\0\0\7message\0\0\0\5quote"
    assert read_quoted(note.encode()) == note
    for raw in (note.encode()[:-1], note.encode() + b"\0", b"", b"\xff" * 9, bytes(3)):
        with pytest.raises(NoteRefusedError):
            read_quoted(raw)


def test_a_note_that_is_too_long_is_not_read() -> None:
    with pytest.raises(NoteRefusedError, match=str(LONGEST_NOTE)):
        read_quoted(bytes(LONGEST_NOTE + 1))


@given(
    raw=st.binary(max_size=200),
    start=st.sampled_from([b"", *(b"KEYH" + k for k in (b"ASK\1", b"GIV\1", b"SWI\1"))]),
)
def test_any_other_bytes_are_refused(raw: bytes, start: bytes) -> None:
    for read in (Ask.read, Give.read, Switch.read, read_quoted):
        try:
            read(start + raw)
        except NoteRefusedError as refused:
            assert refused.reason is NoteProblem.MALFORMED  # noqa: PT017 - or a complete note
