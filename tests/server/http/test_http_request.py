"""What counts as the head of a request, and that nothing else does."""

import re
from typing import Any

import h11
import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.server.http.head import (
    CHUNKED,
    HEAD_END,
    MOST_ESCAPES,
    MOST_OPTIONS,
    Beginning,
    MalformedError,
    RequestHead,
    read_any_head,
    read_common_head,
    read_head,
    readable_path,
)
from keyhouse.server.net.limits import Limits

LIMITS = Limits()


def head(*lines: bytes) -> bytes:
    return b"\r\n".join(lines) + HEAD_END


def read(*lines: bytes) -> RequestHead:
    return read_head(head(*lines), LIMITS)


def refused(data: bytes) -> MalformedError:
    with pytest.raises(MalformedError) as caught:
        read_head(data, LIMITS)
    return caught.value


def test_head_gives_method_decoded_path_and_raw_query() -> None:
    request = read(b"GET /api/v2/s%65crets%C3%A4?s=a%20b&s=c?d HTTP/1.1", b"Host: a:4433")
    assert request == RequestHead(
        "GET", "/api/v2/secretsä", b"s=a%20b&s=c?d", 0, keep_alive=True, expects_continue=False
    )


def test_lengths_are_read() -> None:
    assert read(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: 12").length == 12
    assert read(b"POST / HTTP/1.1", b"Host: a", b"transfer-encoding: Chunked").length == CHUNKED
    assert CHUNKED < 0


def test_only_a_modern_client_that_does_not_say_close_stays() -> None:
    assert read(b"GET / HTTP/1.1", b"Host: a", b"Connection: keep-alive").keep_alive
    assert not read(b"GET / HTTP/1.1", b"Host: a", b"Connection: x, Close").keep_alive
    assert read(b"GET / HTTP/1.1", b"Host: a", b"Connection: close?").keep_alive
    assert read(b"GET / HTTP/1.1", b"Host: a", b"Connection: close?,x").keep_alive
    assert not read(b"GET / HTTP/1.0").keep_alive


def test_continue_is_expected_only_where_there_is_a_body() -> None:
    expect = b"Expect: 100-Continue"
    assert read(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: 1", expect).expects_continue
    assert not read(b"GET / HTTP/1.1", b"Host: a", expect).expects_continue


def test_every_byte_of_a_text_may_be_in_a_value() -> None:
    value = bytes([0x09, *range(0x20, 0x7F), *range(0x80, 0x100)])
    data = head(b"GET / HTTP/1.1", b"Host: a", b"X: " + value)
    assert read_any_head(data, LIMITS) == read_common_head(data, LIMITS)


def test_body_coded_as_itself_and_method_of_the_greatest_length_are_taken() -> None:
    method = b"M" * 32
    request = read(method + b" / HTTP/1.1", b"Host: a", b"Content-Encoding: Identity")
    assert request.method == method.decode()


def test_refusal_has_its_message_and_hint() -> None:
    error = refused(head(b"GET / HTTP/1.1"))
    assert error.message == str(error) == "the request needs exactly one Host header"
    assert (error.part, error.hint) == ("headers", "send one Host header")


def test_limits_of_a_head_are_exact() -> None:
    data = head(b"GET /%41 HTTP/1.1", b"Host: a", b"X: y")
    assert read_any_head(data, Limits(request_line=17, headers=15, header_fields=2)).path == "/A"
    for limits, status in (
        (Limits(request_line=16), 414),
        (Limits(headers=14), 431),
        (Limits(header_fields=1), 431),
    ):
        with pytest.raises(MalformedError) as caught:
            read_any_head(data, limits)
        assert caught.value.status == status


REFUSED = {
    "no host": (400, head(b"GET / HTTP/1.1")),
    "two hosts": (400, head(b"GET / HTTP/1.1", b"Host: a", b"Host: a")),
    "empty host": (400, head(b"GET / HTTP/1.1", b"Host:")),
    "host with a path": (400, head(b"GET / HTTP/1.1", b"Host: a/b")),
    "host with a user": (400, head(b"GET / HTTP/1.1", b"Host: u@a")),
    "host list": (400, head(b"GET / HTTP/1.1", b"Host: a b")),
    "two hosts in 1.0": (400, head(b"GET / HTTP/1.0", b"Host: a", b"Host: b")),
    "length and chunked": (
        400,
        head(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: 1", b"Transfer-Encoding: chunked"),
    ),
    "chunked in 1.0": (400, head(b"POST / HTTP/1.0", b"Transfer-Encoding: chunked")),
    "two equal lengths": (
        400,
        head(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: 1", b"Content-Length: 1"),
    ),
    "list of lengths": (400, head(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: 1, 1")),
    "signed length": (400, head(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: +1")),
    "negative length": (400, head(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: -1")),
    "hexadecimal length": (400, head(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: 0x1")),
    "grouped length": (400, head(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: 1_0")),
    "empty length": (400, head(b"POST / HTTP/1.1", b"Host: a", b"Content-Length:")),
    "length and more": (400, head(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: 5?")),
    "endless length": (
        400,
        head(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: " + b"9" * 30),
    ),
    "gzip, chunked": (
        501,
        head(b"POST / HTTP/1.1", b"Host: a", b"Transfer-Encoding: gzip, chunked"),
    ),
    "chunked twice": (
        501,
        head(
            b"POST / HTTP/1.1",
            b"Host: a",
            b"Transfer-Encoding: chunked",
            b"Transfer-Encoding: chunked",
        ),
    ),
    "chunked, identity": (
        501,
        head(b"POST / HTTP/1.1", b"Host: a", b"Transfer-Encoding: chunked, identity"),
    ),
    "identity": (501, head(b"POST / HTTP/1.1", b"Host: a", b"Transfer-Encoding: identity")),
    "quoted chunked": (501, head(b"POST / HTTP/1.1", b"Host: a", b'Transfer-Encoding: "chunked"')),
    "vertical tab chunked": (
        400,
        head(b"POST / HTTP/1.1", b"Host: a", b"Transfer-Encoding: \x0bchunked"),
    ),
    "upgrade": (501, head(b"GET / HTTP/1.1", b"Host: a", b"Upgrade: h2c", b"Connection: Upgrade")),
    "upgrade alone": (501, head(b"GET / HTTP/1.1", b"Host: a", b"Upgrade: h2c")),
    "upgrade without the field": (501, head(b"GET / HTTP/1.1", b"Host: a", b"Connection: upgrade")),
    "long method": (501, head(b"M" * 33 + b" / HTTP/1.1", b"Host: a")),
    "connect": (501, head(b"CONNECT a:1 HTTP/1.1", b"Host: a")),
    "http 2 preface": (400, head(b"PRI * HTTP/2.0", b"", b"SM")),
    "http 2": (400, head(b"GET / HTTP/2.0", b"Host: a")),
    "http 1.2": (400, head(b"GET / HTTP/1.2", b"Host: a")),
    "http 1.": (400, head(b"GET / HTTP/1.", b"Host: a")),
    "http 0.9": (400, head(b"GET /")),
    "http 1.10": (400, head(b"GET / HTTP/1.10", b"Host: a")),
    "lower-case http": (400, head(b"GET / http/1.1", b"Host: a")),
    "rtsp": (400, head(b"SETUP / RTSP/1.0", b"Host: a")),
    "ice": (400, head(b"SOURCE / ICE/1.0", b"Host: a")),
    "absolute target": (400, head(b"GET https://a/ HTTP/1.1", b"Host: a")),
    "asterisk": (400, head(b"OPTIONS * HTTP/1.1", b"Host: a")),
    "fragment": (400, head(b"GET /a#b HTTP/1.1", b"Host: a")),
    "two blanks": (400, head(b"GET  / HTTP/1.1", b"Host: a")),
    "tab": (400, head(b"GET\t/ HTTP/1.1", b"Host: a")),
    "trailing blank": (400, head(b"GET / HTTP/1.1 ", b"Host: a")),
    "leading blank": (400, head(b" GET / HTTP/1.1", b"Host: a")),
    "leading empty line": (400, b"\r\n\r\n"),
    "bytes in target": (400, head(b"GET /\xc3\xa4 HTTP/1.1", b"Host: a")),
    "half an escape": (400, head(b"GET /%4 HTTP/1.1", b"Host: a")),
    "odd escape": (400, head(b"GET /%zz HTTP/1.1", b"Host: a")),
    "escape not UTF-8": (400, head(b"GET /%ff HTTP/1.1", b"Host: a")),
    "overlong UTF-8": (400, head(b"GET /%c0%af HTTP/1.1", b"Host: a")),
    "escaped NUL": (400, head(b"GET /%00 HTTP/1.1", b"Host: a")),
    "escaped line break": (400, head(b"GET /%0d%0a HTTP/1.1", b"Host: a")),
    "folded line": (400, head(b"GET / HTTP/1.1", b"Host: a", b"X: a", b" b")),
    "blank before colon": (400, head(b"GET / HTTP/1.1", b"Host: a", b"Content-Length : 1")),
    "no colon": (400, head(b"GET / HTTP/1.1", b"Host: a", b"X")),
    "no name": (400, head(b"GET / HTTP/1.1", b"Host: a", b": x")),
    "odd name": (400, head(b"GET / HTTP/1.1", b"Host: a", b"X(: x")),
    "NUL in value": (400, head(b"GET / HTTP/1.1", b"Host: a", b"X: a\x00")),
    "control in value": (400, head(b"GET / HTTP/1.1", b"Host: a", b"X: a\x1b[1m")),
    "delete in value": (400, head(b"GET / HTTP/1.1", b"Host: a", b"X: a\x7f")),
    "bare LF in value": (400, head(b"GET / HTTP/1.1", b"Host: a", b"X: a\nY: b")),
    "bare CR in value": (400, head(b"GET / HTTP/1.1", b"Host: a", b"X: a\rY: b")),
    "unit separator": (400, head(b"GET / HTTP/1.1", b"Host: a", b"X: a\x1f")),
    "bare CR after the line": (400, head(b"GET / HTTP/1.1\rHost: a")),
    "bare CR after the host": (400, head(b"GET / HTTP/1.1", b"Host: a\rX: a")),
    "bare CR after the length": (
        400,
        head(b"GET / HTTP/1.1", b"Host: a", b"Content-Length: 5\rX: a"),
    ),
    "CR CR LF": (400, head(b"GET / HTTP/1.1", b"Host: a\r")),
    "gzip body": (415, head(b"POST / HTTP/1.1", b"Host: a", b"Content-Encoding: gzip")),
    "two expectations": (
        400,
        head(b"POST / HTTP/1.1", b"Host: a", b"Expect: 100-continue", b"Expect: 100-continue"),
    ),
    "other expectation": (400, head(b"POST / HTTP/1.1", b"Host: a", b"Expect: 200-ok")),
    "long line": (414, head(b"GET /" + b"a" * 17_000 + b" HTTP/1.1", b"Host: a")),
    "long headers": (431, head(b"GET / HTTP/1.1", b"Host: a", b"X: " + b"a" * 33_000)),
    "many fields": (431, head(b"GET / HTTP/1.1", b"Host: a", *[b"X: a"] * 100)),
}


@pytest.mark.parametrize(("status", "data"), REFUSED.values(), ids=REFUSED.keys())
def test_head_outside_the_strict_grammar_is_refused(status: int, data: bytes) -> None:
    assert refused(data).status == status


@pytest.mark.parametrize("version", [b"HTTP/2.0", b"HTTP/1.2", b"HTTP/1.10", b"RTSP/1.0"])
def test_another_version_is_told_apart_from_a_malformed_line(version: bytes) -> None:
    other = refused(head(b"GET / " + version, b"Host: a"))
    assert (other.part, other.message) == ("", "this protocol version is not served")
    malformed = refused(head(b"GET  / " + version, b"Host: a"))
    assert (malformed.part, malformed.message) == ("headers", "the request line is malformed")


@pytest.mark.parametrize(
    ("beginning", "path"),
    [
        (b"GET /api/v2/status HTTP/1.1\r\nHost: a b", "/api/v2/status"),
        (b"GET /api/v2/s%74atus?" + b"a" * 20_000, "/api/v2/status"),
        (b"GET /api/v2/status HTTP/1.1", "/api/v2/status"),
        (b"GET /api/v2/status", ""),  # more of it may come
        (b"GET /api/v2/%ff HTTP/1.1\r\n", ""),
        (b"GET http://a/api/v2/ HTTP/1.1\r\n", ""),
        (b"PRI * HTTP/2.0\r\n", ""),
        (b"\x16\x03\x01", ""),
        (b"", ""),
    ],
)
def test_path_of_a_refused_head_is_told_where_it_can_be(beginning: bytes, path: str) -> None:
    assert readable_path(beginning) == path


@pytest.mark.parametrize(
    ("data", "checked"),
    [
        (b"GET / HTTP/1.1\nHost: a\n\n", 0),
        (b"\x16\x03\x01", 0),
        (b"\x16", 0),
        (b"\r", 0),
        (b"GET /\rx", 0),
        (b"GET / HTTP/1.1\r\n\n", 0),
        (b"GE\x00", 2),
        (b"GET /\rx", 6),
    ],
    ids=[
        "bare LF",
        "TLS in TLS",
        "a byte of TLS",
        "empty line",
        "bare CR",
        "half an empty line",
        "the next byte",
        "the byte after CR",
    ],
)
def test_beginning_that_cannot_become_a_head_is_refused_at_once(data: bytes, checked: int) -> None:
    beginning = Beginning()
    if checked:
        beginning.check(bytearray(data[:checked]), LIMITS)
    with pytest.raises(MalformedError) as caught:
        beginning.check(bytearray(data), LIMITS)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("longest", "more", "status"),
    [
        (b"GET /abcde", b"f", 414),
        (b"GET /\r\n" + b"a" * 18, b"a", 431),
        (b"G\r\na\r\nb\r\n", b"c\r\n", 431),
    ],
    ids=["line", "headers", "fields"],
)
def test_limits_of_a_beginning_are_exact(longest: bytes, more: bytes, status: int) -> None:
    limits = Limits(request_line=10, headers=20, header_fields=2)
    whole, cut = Beginning(), Beginning()
    for end in range(1, len(longest) + 1):
        cut.check(bytearray(longest[:end]), limits)
    whole.check(bytearray(longest), limits)
    for beginning in (whole, cut, Beginning()):
        with pytest.raises(MalformedError) as caught:
            beginning.check(bytearray(longest + more), limits)
        assert caught.value.status == status


def test_every_beginning_of_a_good_head_may_continue() -> None:
    data = head(b"POST /a?b HTTP/1.1", b"Host: a", b"X:\t\xe4 b ", b"Content-Length: 3")
    beginning = Beginning()
    for end in range(1, len(data)):
        beginning.check(bytearray(data[:end]), LIMITS)
    beginning.checked = 0  # and so may the next head on the same connection
    for end in range(1, len(data)):
        beginning.check(bytearray(data[:end]), LIMITS)


class Counted(bytearray):
    """Counts the bytes that are looked for in it."""

    looked_at = 0

    def find(self, *given: Any) -> int:
        type(self).looked_at += len(self) - given[1]
        return super().find(*given)

    def count(self, *given: Any) -> int:
        type(self).looked_at += len(self) - given[1]
        return super().count(*given)


def test_head_that_comes_byte_by_byte_has_each_byte_looked_at_once() -> None:
    """Two searches look at each new byte and at the byte before; none looks at the others."""
    data, beginning, size = Counted(b"GET / HTTP/1.1\r\nX: "), Beginning(), 20_000
    beginning.check(data, LIMITS)
    Counted.looked_at = 0
    for _ in range(size):
        data += b"a"
        beginning.check(data, LIMITS)
    assert Counted.looked_at <= 4 * size


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/" + b"%61" * MOST_ESCAPES + b"a" * 9000, 0),
        (b"/" + b"%61" * (MOST_ESCAPES + 1), 414),
        (b"/?" + b"%61" * 5000, 0),
    ],
)
def test_escapes_of_a_path_have_a_limit(target: bytes, status: int) -> None:
    raw = head(b"GET " + target + b" HTTP/1.1", b"Host: a")
    if not status:
        assert read_any_head(raw, LIMITS).method == "GET"
        return
    with pytest.raises(MalformedError) as caught:
        read_any_head(raw, LIMITS)
    assert caught.value.status == status


def test_options_of_a_connection_have_a_limit_over_all_fields() -> None:
    most = [b"Connection: " + b"," * (MOST_OPTIONS // 2 - 1)] * 2
    assert read_any_head(head(b"GET / HTTP/1.1", b"Host: a", *most), LIMITS).keep_alive
    with pytest.raises(MalformedError) as caught:
        read_any_head(head(b"GET / HTTP/1.1", b"Host: a", *most, b"Connection: close"), LIMITS)
    assert caught.value.status == 431


_BROKEN = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?!\n|\Z)")


@given(
    st.lists(st.sampled_from([b"a", b":\t", b"\r", b"\n", b"\r\n", b"\0", b"\xe4"]), max_size=12)
)
def test_beginning_is_refused_at_the_first_piece_that_is_no_part_of_a_head(
    pieces: list[bytes],
) -> None:
    beginning, data = Beginning(), bytearray(b"GET / HTTP/1.1")
    beginning.check(data, LIMITS)
    for piece in pieces:
        data += piece
        if _BROKEN.search(data):
            with pytest.raises(MalformedError):
                beginning.check(data, LIMITS)
            return
        beginning.check(data, LIMITS)


TOKENS = st.text("GETPOSTabc-_1!", min_size=1, max_size=6).map(str.encode)
VALUES = st.binary(max_size=6) | st.sampled_from(
    [b"chunked", b"gzip, chunked", b"1", b"5", b"+5", b"a", b"close", b"100-continue", b" 7 "]
)
NAMES = TOKENS | st.sampled_from(
    [b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Expect", b"content-length"]
)
FIELDS = st.tuples(NAMES, st.sampled_from([b": ", b":", b" :", b":\t"]), VALUES).map(b"".join)
TARGETS = st.text("/a%41?#\x00 ä", max_size=6).map(lambda text: b"/" + text.encode())
LINES = st.tuples(
    TOKENS, TARGETS, st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"RTSP/1.0"])
).map(b" ".join)
BREAKS = st.sampled_from([b"\r\n"] * 8 + [b"\n", b"\r", b"\r\n "])
HEADS = st.one_of(
    st.binary(max_size=40).map(lambda data: data + b"\r\n\r\n"),
    st.tuples(LINES, st.lists(st.tuples(BREAKS, FIELDS).map(b"".join), max_size=4)).map(
        lambda parts: parts[0] + b"\r\nHost: a" + b"".join(parts[1]) + b"\r\n\r\n"
    ),
)


@settings(max_examples=600, deadline=None)
@given(HEADS)
def test_what_is_accepted_h11_reads_the_same_way(data: bytes) -> None:
    end = data.index(b"\r\n\r\n") + 4
    try:
        ours = read_head(data[:end], LIMITS)
    except MalformedError:
        return
    other = h11.Connection(h11.SERVER)
    other.receive_data(data[:end])
    event = other.next_event()
    assert isinstance(event, h11.Request)
    assert event.method == ours.method.encode()
    assert event.target.partition(b"?")[2] == ours.query
    fields = dict(event.headers)
    length = CHUNKED if b"transfer-encoding" in fields else int(fields.get(b"content-length", b"0"))
    assert length == ours.length


USUAL = [
    head(
        b"GET /api/v2/status HTTP/1.1",
        b"Host: localhost:4433",
        b"User-Agent: curl/8",
        b"Accept: */*",
    ),
    head(
        b"POST /a?s=1&s=%41 HTTP/1.1",
        b"host:[::1]:1",
        b"connection: Keep-Alive",
        b"X:",
        b"Content-Length: 5",
    ),
]
SPECIAL = [
    b"Host: b",
    b"Content-Length: 5",
    b"Upgrade: a",
    b"Expect: b",
    b"Transfer-Encoding: chunked",
    b"Connection: close",
    b"Content-Encoding: gzip",
]
REPLACED = st.tuples(
    st.sampled_from(USUAL),
    st.integers(0, 200),
    st.integers(0, 3),
    st.binary(max_size=3)
    | st.sampled_from(SPECIAL).map(lambda field: b"\r\n" + field)
    | st.sampled_from([b"\r\n", b"#", b"?", b"%", b" ", b":"]),
)


@pytest.mark.parametrize("data", USUAL)
def test_what_clients_usually_send_takes_the_short_way(data: bytes) -> None:
    assert read_common_head(data, LIMITS) == read_any_head(data, LIMITS)
    assert read_common_head(data[:-1], LIMITS) is None


@settings(max_examples=1500, deadline=None)
@given(REPLACED)
def test_short_way_says_what_the_long_way_says(parts: tuple[bytes, int, int, bytes]) -> None:
    data, at, length, new = parts
    changed = (data[:-4][:at] + new + data[:-4][at + length :]).partition(b"\r\n\r\n")[0]
    common = read_common_head(changed + b"\r\n\r\n", LIMITS)
    if common is not None:
        assert common == read_any_head(changed + b"\r\n\r\n", LIMITS)


@pytest.mark.parametrize(
    "field",
    [
        b"Connection:Content-Length: 5",
        b"connection: keep-aliveContent-Length: 5",
        b"Connection: Content-Length:5",
    ],
)
def test_no_value_of_a_field_is_read_as_the_field_that_it_names(field: bytes) -> None:
    """Possessive groups of ``re`` leave half a repetition behind, in CPython 3.11.2 for one."""
    data = head(b"POST / HTTP/1.1", b"Host: a", field)
    assert read_common_head(data, LIMITS) is None
    assert read_head(data, LIMITS).length == 0


def test_short_way_keeps_every_limit() -> None:
    line = b"GET /" + b"a" * 60 + b" HTTP/1.1"
    data = head(line, b"Host: a", *[b"X: y"] * 9)
    for limits in (Limits(request_line=70), Limits(headers=50), Limits(header_fields=9)):
        assert read_common_head(data, limits) is None
    assert read_common_head(data, Limits(header_fields=10)) is not None


@pytest.mark.parametrize("data", [row[1] for row in REFUSED.values()], ids=REFUSED.keys())
def test_nothing_that_is_refused_takes_the_short_way(data: bytes) -> None:
    assert read_common_head(data, LIMITS) is None
