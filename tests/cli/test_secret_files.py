"""Files of secrets are uploaded whole and as they are meant, or not at all."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
)
from hypothesis import given, settings, strategies as st
from support.samples.deployment import user
from support.samples.fixed_keys import unused_rsa_key

from keyhouse.base.errors import InvalidError, RefusedError
from keyhouse.base.secret import Secret
from keyhouse.client import SecretUpload
from keyhouse.manifest import decode
from keyhouse.views.secrets import read_pem_secret, read_secret_file, upload_of
from keyhouse.wire.json_parser import UnreadableError

PEM, KEY = user("web").pem, user("web").key_pem
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=50)
@given(st.dictionaries(TEXTS, st.binary(max_size=40), max_size=4))
def test_keys_come_out_as_they_were_written(values: dict[str, bytes]) -> None:
    written = {name: {"Key": base64.b64encode(value).decode()} for name, value in values.items()}
    found = read_secret_file(json.dumps(written).encode())
    assert found == {name: SecretUpload(key=Secret(value)) for name, value in values.items()}


def test_all_parts_of_a_certificate_are_sent() -> None:
    content = {"web": {"cert": "AAE=", "private": "AAI=", "public": "AAM="}}
    assert read_secret_file(json.dumps(content).encode()) == {
        "web": SecretUpload(cert=b"\x00\x01", private=Secret(b"\x00\x02"), public=b"\x00\x03")
    }


def test_an_empty_value_is_refused_before_it_is_sent() -> None:
    manifest = b'{"Secrets": {"note": {"Type": "plain", "UserDefined": true}}}'
    with pytest.raises(RefusedError, match=r'secret "note" .*empty'):
        upload_of("note", Secret(b""), decode(manifest))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"{", "is not JSON"),
        (b"[]", "is a list"),
        (b'{"note": "CANARY"}', "note"),
        (b'{"note": {"kye": "CANARY"}}', "did you mean"),
        (b'{"note": {"key": "CANARY%"}}', "note.key"),
        (b'{"note": {"key": "aGVsbG8="}, "note": {"key": "aGVsbG8="}}', "more than once"),
        (b'{"note": {"key": "aGVsbG8=", "KEY": "aGVsbG8="}}', "more than once"),
    ],
)
def test_anything_wrong_refuses_all_of_it(content: bytes, what: str) -> None:
    with pytest.raises((InvalidError, UnreadableError)) as refusal:
        read_secret_file(content)
    assert what in str(refusal.value)
    assert "CANARY" not in str(refusal.value)


@pytest.mark.parametrize("content", [PEM + KEY, KEY + PEM, b"a comment\n" + PEM + b"\n\n" + KEY])
def test_a_certificate_and_its_key_are_taken_from_pem(content: bytes) -> None:
    found = read_pem_secret(content)
    assert found.cert == user("web").der
    assert found.private is not None
    assert (
        load_der_private_key(found.private.reveal(), None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        == KEY
    )


def test_a_certificate_alone_and_older_forms_of_keys_are_taken() -> None:
    assert read_pem_secret(PEM).private is None
    for key in (load_pem_private_key(KEY, None), unused_rsa_key()):
        assert isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)
        older = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        found = read_pem_secret(PEM + older)
        assert found.private is not None
        assert load_der_private_key(found.private.reveal(), None).public_key() == key.public_key()
    assert read_pem_secret(PEM).cert == user("web").der


def _encrypted() -> bytes:
    key = load_pem_private_key(KEY, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        KEY,
        PEM * 2,
        PEM + KEY * 2,
        PEM.replace(b"M", b"N", 3),
        PEM + _encrypted(),
        PEM + b"-----BEGIN PRIVATE KEY-----\nCANARY==\n-----END PRIVATE KEY-----\n",
        PEM + b"-----BEGIN DH PARAMETERS-----\nAA==\n-----END DH PARAMETERS-----\n",
    ],
    ids=["nothing", "text", "key", "two", "keys", "broken", "encrypted", "broken key", "more"],
)
def test_pem_that_is_not_one_certificate_is_refused(content: bytes) -> None:
    with pytest.raises(RefusedError, match="PEM file") as refusal:
        read_pem_secret(content)
    assert "CANARY" not in str(refusal.value)
