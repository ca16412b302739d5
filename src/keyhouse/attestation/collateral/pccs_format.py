"""The answers of a PCCS: Intel's PCS, version 4. Pure: bytes in, parts of a ``Collateral`` out.

::

    /sgx/certification/v4/tcb?fmspc=HEX&update=standard   {"tcbInfo":{...},"signature":HEX}
        header TCB-Info-Issuer-Chain, or SGX-TCB-Info-Issuer-Chain
    /sgx/certification/v4/qe/identity?update=standard     {"enclaveIdentity":{...},"signature":HEX}
        header SGX-Enclave-Identity-Issuer-Chain
    /sgx/certification/v4/pckcrl?ca=platform&encoding=der  the list, DER
        header SGX-PCK-CRL-Issuer-Chain
    /sgx/certification/v4/rootcacrl                       the list, DER or hex

For TDX the first two are under ``/tdx``. With ``update=early`` they include a TCB recovery that is
announced but not yet in force. Chains are PEM, leaf first, percent-encoded. A signature covers the
exact bytes of the document in the answer, so a document is cut out and never encoded again. Source:
Intel, "Provisioning Certification Service API", version 4.
"""

import binascii
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.collateral.facts import PlatformKind
from keyhouse.attestation.errors import CollateralRefusedError

_HINT = "verify that the address belongs to a PCCS with API version 4"
_SIGNATURE = 64  # bytes of an ECDSA P-256 signature: r and s
_DER_SEQUENCE = 0x30  # X.690, 8.9: tag of a SEQUENCE
_TCB_CHAINS = ("tcb-info-issuer-chain", "sgx-tcb-info-issuer-chain")
_QE_CHAINS = ("sgx-enclave-identity-issuer-chain",)
_CRL_CHAINS = ("sgx-pck-crl-issuer-chain",)


class Fetched(msgspec.Struct, frozen=True):
    """An answer with status 200; names of headers in lower case."""

    headers: Mapping[str, str]
    body: bytes


class PccsAnswers(msgspec.Struct, frozen=True):
    """The four answers of a fetch, in the order of ``requests_for``."""

    tcb: Fetched
    qe_identity: Fetched
    pck_crl: Fetched
    root_crl: Fetched


class _TcbAnswer(msgspec.Struct):
    document: msgspec.Raw = msgspec.field(name="tcbInfo")
    signature: str


class _QeAnswer(msgspec.Struct):
    document: msgspec.Raw = msgspec.field(name="enclaveIdentity")
    signature: str


_tcb_decoder = msgspec.json.Decoder(_TcbAnswer)
_qe_decoder = msgspec.json.Decoder(_QeAnswer)


def requests_for(kind: PlatformKind, *, early: bool = False) -> tuple[str, str, str, str]:
    """Return path and query of the four requests for ``kind``, relative to the PCCS.

    ``early``: request the collateral of the newest TCB evaluation, before Intel enforces it.
    """
    update = "early" if early else "standard"
    documents = f"{kind.tee}/certification/v4"
    lists = "sgx/certification/v4"
    return (
        f"{documents}/tcb?fmspc={kind.fmspc.upper()}&update={update}",
        f"{documents}/qe/identity?update={update}",
        f"{lists}/pckcrl?ca={kind.ca}&encoding=der",
        f"{lists}/rootcacrl",
    )


def assemble(answers: PccsAnswers) -> Collateral:
    """Return the collateral in ``answers``, not verified. Raises ``CollateralRefusedError``."""
    tcb_info, tcb_signature = _document(answers.tcb.body, _tcb_decoder, "TCB info")
    qe_identity, qe_signature = _document(answers.qe_identity.body, _qe_decoder, "QE identity")
    return Collateral(
        pck_crl_issuer_chain=_chain(answers.pck_crl, _CRL_CHAINS, "PCK revocation list"),
        root_ca_crl=_list(answers.root_crl.body, "root revocation list"),
        pck_crl=_list(answers.pck_crl.body, "PCK revocation list"),
        tcb_info_issuer_chain=_chain(answers.tcb, _TCB_CHAINS, "TCB info"),
        tcb_info=tcb_info,
        tcb_info_signature=tcb_signature,
        qe_identity_issuer_chain=_chain(answers.qe_identity, _QE_CHAINS, "QE identity"),
        qe_identity=qe_identity,
        qe_identity_signature=qe_signature,
    )


def _document(
    body: bytes,
    decoder: "msgspec.json.Decoder[_TcbAnswer] | msgspec.json.Decoder[_QeAnswer]",
    what: str,
) -> tuple[str, bytes]:
    try:
        answer = decoder.decode(body)
        text = bytes(answer.document).decode("utf-8")
        signature = binascii.unhexlify(answer.signature)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise _unreadable(what) from None
    if len(signature) != _SIGNATURE:
        raise _unreadable(what)
    return text, signature


def _list(body: bytes, what: str) -> bytes:
    """Return the revocation list in ``body`` as DER. Some services send the list as hex.

    ``what`` names the list in errors.
    """
    if body[:1] == bytes([_DER_SEQUENCE]):  # hex would begin with the character "3"
        return body
    try:
        der = binascii.unhexlify(body.strip())
    except ValueError:
        raise _unreadable(what) from None
    if der[:1] != bytes([_DER_SEQUENCE]):
        raise _unreadable(what)
    return der


def _chain(answer: Fetched, names: tuple[str, ...], what: str) -> str:
    text = next((answer.headers[name] for name in names if name in answer.headers), "")
    chain = unquote(text)  # bytes that are not UTF-8 become characters outside ASCII
    if not chain or not chain.isascii():
        raise CollateralRefusedError(
            f"the PCCS's answer for the {what} has no issuer chain in its headers", hint=_HINT
        )
    return chain


def _unreadable(what: str) -> CollateralRefusedError:
    return CollateralRefusedError(f"the PCCS's answer for the {what} is unreadable", hint=_HINT)
