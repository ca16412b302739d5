"""Answers of a PCCS become collateral byte for byte, or a refusal with the name of the part."""

import json

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from support.samples.collateral import recorded

from keyhouse.attestation import Collateral, CollateralRefusedError, PckCa, PlatformKind, Tee
from keyhouse.attestation.collateral.pccs_format import Fetched, PccsAnswers, assemble, requests_for
from keyhouse_simulation.pccs import PccsServer, ServedCollateral

_, SGX = recorded("sgx_quote")
_, TDX = recorded("tdx_quote")


def answers(collateral: Collateral) -> PccsAnswers:
    """Return the answers of a PCCS with ``collateral``."""
    server = PccsServer([ServedCollateral(collateral)])
    found = []
    for target in requests_for(ServedCollateral(collateral).kind):
        status, headers, body = server.answer(f"/{target}", None)
        assert status == 200
        found.append(Fetched({name.lower(): value for name, value in headers.items()}, body))
    return PccsAnswers(*found)


def test_the_requests_are_those_of_version_4() -> None:
    assert requests_for(PlatformKind(Tee.TDX, "b0c06f000000", PckCa.PLATFORM)) == (
        "tdx/certification/v4/tcb?fmspc=B0C06F000000&update=standard",
        "tdx/certification/v4/qe/identity?update=standard",
        "sgx/certification/v4/pckcrl?ca=platform&encoding=der",
        "sgx/certification/v4/rootcacrl",
    )


@pytest.mark.parametrize("collateral", [SGX, TDX], ids=["sgx", "tdx"])
def test_intels_documents_come_through_byte_for_byte(collateral: Collateral) -> None:
    assert assemble(answers(collateral)) == collateral


def test_the_document_is_cut_out_as_it_stands() -> None:
    """A signature covers bytes, so spaces, order, escapes and repeated keys must not change."""
    document = '{ "b":1,\t"a" : "\\u0041\u00e9", "b": 2.50 }'
    body = f' {{ "signature" : "{"ab" * 64}",\n"tcbInfo" :  {document}  , "more":0 }} \n'
    bent = msgspec.structs.replace(
        answers(SGX), tcb=Fetched(answers(SGX).tcb.headers, body.encode())
    )
    found = assemble(bent)
    assert found.tcb_info == document
    assert found.tcb_info_signature == b"\xab" * 64


def test_both_names_of_the_tcb_chain_and_both_forms_of_lists_are_known() -> None:
    given_ = answers(SGX)
    chain = given_.tcb.headers["tcb-info-issuer-chain"]
    old = Fetched({"sgx-tcb-info-issuer-chain": chain}, given_.tcb.body)
    as_hex = Fetched(given_.pck_crl.headers, SGX.pck_crl.hex().encode() + b"\n")
    as_der = Fetched({}, SGX.root_ca_crl)
    bent = msgspec.structs.replace(given_, tcb=old, pck_crl=as_hex, root_crl=as_der)
    assert assemble(bent) == SGX


@pytest.mark.parametrize(
    ("part", "body", "named"),
    [
        ("tcb", b"CANARY", "TCB info"),
        ("tcb", b'{"tcbInfo":{},"signature":"CANARY"}', "TCB info"),
        ("tcb", b'{"tcbInfo":{},"signature":"00"}', "TCB info"),
        ("tcb", b'{"tcbInfo":{"x":"\xff"},"signature":"' + b"00" * 64 + b'"}', "TCB info"),
        ("qe_identity", b'{"tcbInfo":{},"signature":""}', "QE identity"),
        ("qe_identity", b'{"enclaveIdentity":' + b"[" * 100_000, "QE identity"),
        ("pck_crl", b"", "PCK revocation list"),
        ("pck_crl", b"<html>CANARY", "PCK revocation list"),
        ("root_crl", b"CANARY", "root revocation list"),
        ("root_crl", b"abcd", "root revocation list"),
    ],
)
def test_an_unreadable_answer_is_named_and_not_shown(part: str, body: bytes, named: str) -> None:
    whole = answers(SGX)
    bent = msgspec.structs.replace(whole, **{part: Fetched(getattr(whole, part).headers, body)})
    with pytest.raises(CollateralRefusedError, match=named) as caught:
        assemble(bent)
    assert "CANARY" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("part", ["tcb", "qe_identity", "pck_crl"])
@pytest.mark.parametrize("value", [None, "%ff", "caf\u00e9%e9"])
def test_a_missing_or_unreadable_chain_is_refused(part: str, value: str | None) -> None:
    whole = answers(SGX)
    fetched: Fetched = getattr(whole, part)
    headers = {} if value is None else dict.fromkeys(fetched.headers, value)
    bent = msgspec.structs.replace(whole, **{part: Fetched(headers, fetched.body)})
    with pytest.raises(CollateralRefusedError, match="issuer chain"):
        assemble(bent)


@given(st.sampled_from(["tcb", "qe_identity", "pck_crl", "root_crl"]), st.data())
@settings(max_examples=150)
def test_arbitrary_answers_are_collateral_or_a_refusal(part: str, data: st.DataObject) -> None:
    whole = answers(SGX)
    body: bytes = getattr(whole, part).body
    at = data.draw(st.integers(0, len(body)))
    junk = data.draw(st.binary(max_size=30))
    headers = dict.fromkeys(
        getattr(whole, part).headers, data.draw(st.text(st.characters(max_codepoint=255)))
    )
    bent = msgspec.structs.replace(
        whole, **{part: Fetched(headers, body[:at] + junk + body[at + 1 :])}
    )
    try:
        found = assemble(bent)
    except CollateralRefusedError:
        return
    assert isinstance(found, Collateral)


def test_the_document_of_another_writer_is_never_written_again() -> None:
    spaced = json.dumps(json.loads(SGX.tcb_info), indent=3)
    bent = msgspec.structs.replace(SGX, tcb_info=spaced)
    assert assemble(answers(bent)).tcb_info == spaced
