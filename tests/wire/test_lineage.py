"""The extension of marble certificates that names a lineage."""

import pytest
from cryptography import x509
from cryptography.hazmat.bindings._rust import ObjectIdentifier
from hypothesis import given, strategies as st

from keyhouse.base.byte_reader import der_elements, element
from keyhouse.wire.lineage import LINEAGE, LINEAGE_DER, LineageFacts, read_lineage

FACTS = LineageFacts(bytes(range(16)), "tdx", "UpToDate", 1_764_000_000)


def test_the_identifier_in_der_is_the_identifier_in_text() -> None:
    extension = x509.UnrecognizedExtension(ObjectIdentifier(LINEAGE), b"")
    usage = x509.ExtendedKeyUsage([extension.oid])
    ((_, identifiers),) = der_elements(usage.public_bytes())
    assert identifiers == LINEAGE_DER


@given(
    st.binary(min_size=16, max_size=16),
    st.text(max_size=200),
    st.text(max_size=200),
    st.integers(0, 2**62),
)
def test_reading_gives_the_encoded_facts(name: bytes, kind: str, status: str, time: int) -> None:
    facts = LineageFacts(name, kind, status, time)
    assert read_lineage(facts.encode()) == facts


@given(st.binary(max_size=80))
def test_other_bytes_raise_a_value_error_alone(value: bytes) -> None:
    with pytest.raises(ValueError):
        read_lineage(value)


@pytest.mark.parametrize(
    "value",
    [
        FACTS.encode() + b"\0",
        FACTS.encode()[:-1],
        LineageFacts(b"short", "tdx", "", 1).encode(),
        FACTS.encode().replace(bytes.fromhex("020101"), bytes.fromhex("020102"), 1),
        element(0x30, FACTS.encode()),
    ],
    ids=["trailing", "truncated", "short-id", "version-2", "nested"],
)
def test_any_other_form_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError):
        read_lineage(value)
