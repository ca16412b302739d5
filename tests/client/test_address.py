"""An address is a host and a port, and nothing else."""

import re

import pytest
from hypothesis import given, settings, strategies as st
from support.peers.peer import certify

from keyhouse.client import Address, ClientSetupError, Timeouts, parse_address
from keyhouse.client.http.connection import BlockingConnection
from keyhouse.client.http.pinned_tls import pinned_context


@pytest.mark.parametrize(
    ("text", "address", "again"),
    [
        ("localhost", Address("localhost", 4433), "localhost:4433"),
        ("a.example.com:1", Address("a.example.com", 1), "a.example.com:1"),
        ("10.0.0.7:65535", Address("10.0.0.7", 65535), "10.0.0.7:65535"),
        ("a.example.:1", Address("a.example.", 1), "a.example.:1"),
        ("[::1]:443", Address("::1", 443), "[::1]:443"),
        ("[fe80::1]", Address("fe80::1", 4433), "[fe80::1]:4433"),
    ],
)
def test_hosts_with_and_without_a_port_are_read(text: str, address: Address, again: str) -> None:
    assert parse_address(text) == address
    assert str(address) == again


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":4433",
        "host:",
        "host:0",
        "host:65536",
        "host:１",  # noqa: RUF001 - a digit of another script is the point
        "https://host:4433",
        "host/path",
        "user@host",
        "host:1:2",
        "::1",
        "[::g]:1",
        "[1.2.3.4]:1",
        "host name",
        "host\n",
        "..",
        "a..b",
        ".a",
        "x" * 64,
        "x." * 127 + "x",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ClientSetupError, match="host:port"):
        parse_address(text)


@given(st.text(max_size=30))
@settings(max_examples=200)
def test_any_text_is_an_address_or_a_refusal(text: str) -> None:
    try:
        address = parse_address(text)
    except ClientSetupError:
        return
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("host", ["999.1.1.1", "xn--", "xn--a-", "a..b", "x" * 64])
def test_host_that_cannot_be_one_is_refused_before_it_is_looked_up(host: str) -> None:
    with pytest.raises(ClientSetupError, match=re.escape(f"{host}:1")):
        BlockingConnection(Address(host, 1), pinned_context(certify("root").der), Timeouts())
