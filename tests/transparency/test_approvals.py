import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, strategies as st
from msgspec.structs import replace

from keyhouse.transparency.approval import (
    APPROVAL_BYTES,
    Approval,
    DecisionKind,
    SignedApproval,
    TreeHead,
)
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.sign_approval import sign_approval, signature_by

H = "ab" * 32
APPROVAL = Approval(
    origin="keyhouse/1",
    root=H,
    decision=DecisionKind.APPROVE,
    user="änne",
    base=H,
    manifest="cd" * 32,
    plan="",
    head=TreeHead(size=7, root=H),
    time=1_790_000_000_000_000,
)
PAYLOAD = (
    b'{"base":"%(h)b","decision":"approve","head":{"root":"%(h)b","size":7},"manifest":"%(m)b",'
    b'"origin":"keyhouse/1","plan":"","root":"%(h)b","time":1790000000000000,"user":"\xc3\xa4nne",'
    b'"v":1}' % {b"h": H.encode(), b"m": b"cd" * 32}
)
TYPE = b"application/vnd.keyhouse.approval.v1+json"
KEYS: dict[str, Callable[[], CertificateIssuerPrivateKeyTypes]] = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


def certificate_of(key: CertificateIssuerPrivateKeyTypes) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "user")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
    builder = builder.not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
    builder = builder.not_valid_after(datetime(2036, 1, 1, tzinfo=UTC))
    plain = isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    return builder.sign(key, None if plain else hashes.SHA256()).public_bytes(Encoding.DER)


@cache
def user(kind: str) -> tuple[CertificateIssuerPrivateKeyTypes, bytes]:
    key = KEYS[kind]()
    return key, certificate_of(key)


def signed(kind: str = "P-256", approval: Approval = APPROVAL) -> bytes:
    return sign_approval(approval, lambda message: signature_by(user(kind)[0], message))


def test_the_bytes_that_are_signed_are_these_forever() -> None:
    messages: list[bytes] = []

    def sign(message: bytes) -> bytes:
        messages.append(message)
        return b"signature"

    raw = sign_approval(APPROVAL, sign)
    assert messages == [b"DSSEv1 41 %b %d %b" % (TYPE, len(PAYLOAD), PAYLOAD)]
    assert raw == b'{"payload":"%b","payloadType":"%b","signatures":[{"sig":"%b"}]}' % (
        base64.b64encode(PAYLOAD),
        TYPE,
        base64.b64encode(b"signature"),
    )
    assert SignedApproval.read(raw) == SignedApproval(APPROVAL, messages[0], b"signature")


@pytest.mark.parametrize("kind", KEYS)
def test_each_kind_of_key_signs_what_its_certificate_verifies_and_no_other(kind: str) -> None:
    found = SignedApproval.read(signed(kind))
    found.verify(user(kind)[1])
    for other in KEYS:
        if other != kind:
            with pytest.raises(LogInvalidError, match="does not verify"):
                found.verify(user(other)[1])
    with pytest.raises(LogInvalidError, match="does not verify"):
        replace(found, message=found.message + b" ").verify(user(kind)[1])
    with pytest.raises(LogInvalidError, match="does not verify"):
        replace(found, signature=b"").verify(user(kind)[1])


def test_a_key_of_another_kind_signs_nothing_and_verifies_nothing() -> None:
    key = ed448.Ed448PrivateKey.generate()
    with pytest.raises(LogInvalidError, match="cannot sign approvals"):
        sign_approval(APPROVAL, lambda message: signature_by(key, message))
    found = SignedApproval.read(signed())
    small = rsa.generate_private_key(65537, 1024)  # noqa: S505 it is refused
    curve = ec.generate_private_key(ec.BrainpoolP256R1())
    for certificate in (
        certificate_of(key), certificate_of(small), certificate_of(curve), b"", b"0\x03"
    ):  # fmt: skip
        with pytest.raises(LogInvalidError, match="cannot sign approvals"):
            found.verify(certificate)


def test_an_envelope_has_one_form() -> None:
    raw = signed()
    given = json.loads(raw)
    one = given["signatures"][0]
    others: list[Any] = [
        [given],
        {**given, "keyid": ""},
        {**given, "payloadType": "application/vnd.in-toto+json"},
        {**given, "signatures": []},
        {**given, "signatures": [one, one]},
        {**given, "signatures": [{**one, "keyid": ""}]},
        {**given, "payload": given["payload"] + "\n"},
        {**given, "payload": given["payload"].replace("=", "")} if "=" in given["payload"] else [],
    ]
    texts = [_compact(other) for other in others]
    texts += [b"", raw + b"\n", b" " + raw, json.dumps(given).encode(), raw.replace(b":", b": ", 1)]
    texts += [b"\xff", raw + b" " * APPROVAL_BYTES, b"[" * 5000]
    for text in texts:
        with pytest.raises(LogInvalidError):
            SignedApproval.read(text)


def test_a_payload_has_one_form() -> None:
    given = json.loads(PAYLOAD)
    payloads = [
        PAYLOAD + b"\n",
        json.dumps(given).encode(),
        PAYLOAD.replace(b"\xc3\xa4", b"\\u00e4"),
    ]
    payloads += [_compact({key: given[key] for key in given if key != name}) for name in given]
    odd: list[object] = [1.5, -1, None, True, [], {}, 2**53, "x\n" * 300]
    payloads += [_compact({**given, name: value}) for name in given for value in odd]
    names = ("root", "base", "manifest", "plan", "decision")
    payloads += [
        _compact({**given, name: value}) for name in names for value in (H + "\n", "AB" * 32)
    ]
    payloads += [_compact({**given, "more": 1}), _compact({**given, "head": {"size": 7}})]
    for payload in payloads:
        raw = b'{"payload":"%b","payloadType":"%b","signatures":[{"sig":"AA=="}]}' % (
            base64.b64encode(payload),
            TYPE,
        )
        with pytest.raises(LogInvalidError):
            SignedApproval.read(raw)


@pytest.mark.parametrize(
    "approval",
    [replace(APPROVAL, base="x"), replace(APPROVAL, time=2**53), replace(APPROVAL, user="x" * 513)],
    ids=["hash", "time", "name"],
)
def test_what_could_not_be_read_is_not_signed(approval: Approval) -> None:
    with pytest.raises(LogInvalidError):
        signed(approval=approval)


@given(at=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.booleans())
def test_an_envelope_with_another_byte_is_refused(at: int, value: int, *, cut: bool) -> None:
    raw = bytearray(signed("Ed25519"))
    at %= len(raw)
    if cut:
        del raw[at]
    elif raw[at] == value:
        return
    else:
        raw[at] = value
    with pytest.raises(LogInvalidError):
        SignedApproval.read(bytes(raw)).verify(user("Ed25519")[1])


def _compact(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
