"""An address is a host and a port, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyhouse.client import Address, ClientSetup, parse_address


@pytest.mark.parametrize(
    ("text", "address", "again"),
    [
        ("localhost", Address("localhost", 4433), "localhost:4433"),
        ("a.example.com:1", Address("a.example.com", 1), "a.example.com:1"),
        ("10.0.0.7:65535", Address("10.0.0.7", 65535), "10.0.0.7:65535"),
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
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ClientSetup, match="host:port"):
        parse_address(text)


@given(st.text(max_size=30))
@settings(max_examples=200)
def test_any_text_is_an_address_or_a_refusal(text: str) -> None:
    try:
        address = parse_address(text)
    except ClientSetup:
        return
    assert parse_address(str(address)) == address
