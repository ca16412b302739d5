"""Secrets as they are answered: their bytes, and the one way out for their values."""

import msgspec
import pytest

from keyhouse.base.secret import Secret
from keyhouse.server.client_api.secret_json import encode_secrets
from keyhouse.wire.client_api import SecretObject, SecretsData
from keyhouse.wire.field_presence import LEFT_OUT, NULL
from keyhouse.wire.json_decoder import decode

SECRET = SecretObject(
    type="cert-ecdsa",
    size=256,
    shared=True,
    cert=b"\x01",
    valid_for=7,
    private=Secret(b"\x02"),
    public=Secret(b"\x03"),
)


def test_secret_leaves_only_through_the_encoder_for_secrets() -> None:
    text = encode_secrets(SecretsData({"a": SECRET}))

    assert text == (
        b'{"secrets":{"a":{"type":"cert-ecdsa","size":256,"shared":true,"userDefined":false,'
        b'"cert":"AQ==","validFor":7,"private":"Ag==","public":"Aw=="}}}'
    )
    assert decode(text, SecretsData).secrets == {"a": SECRET}
    with pytest.raises(TypeError):
        msgspec.json.encode(SECRET)


def test_secret_has_no_field_that_its_type_does_not_have() -> None:
    bare = SecretObject(type="cert-ed25519", size=LEFT_OUT, cert=NULL, valid_for=LEFT_OUT)

    text = encode_secrets({"a": bare})

    assert text == (
        b'{"a":{"type":"cert-ed25519","shared":false,"userDefined":false,"cert":null,'
        b'"private":null,"public":null}}'
    )
    assert decode(text, dict[str, SecretObject]) == {"a": SecretObject(type="cert-ed25519")}
