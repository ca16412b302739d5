"""The bytes of each request, which the coordinator reads into the same type."""

from typing import Any

import msgspec
import pytest

from keyhouse.base.secret import Secret
from keyhouse.client import SecretUpload, calls
from keyhouse.wire import client_api as api
from keyhouse.wire.json_decoder import decode

DIGEST = "ab" * 32

SENT: dict[str, tuple[calls.ApiCall[Any], bytes, msgspec.Struct]] = {
    "first manifest": (
        calls.setting(b"{}"),
        b'{"manifest":"e30="}',
        api.ManifestBody(b"{}"),
    ),
    "plan": (calls.planning(b"{}"), b'{"manifest":"e30="}', api.ManifestBody(b"{}")),
    "update": (
        calls.agreeing(calls.UPDATE, b"{}"),
        b'{"manifest":"e30="}',
        api.UpdateBody(b"{}"),
    ),
    "update that is bound to a plan": (
        calls.agreeing(calls.ACKNOWLEDGE, b"{}", DIGEST),
        b'{"manifest":"e30=","plan":"%b"}' % DIGEST.encode(),
        api.UpdateBody(b"{}", DIGEST),
    ),
    "key": (
        calls.writing_secrets({"a": SecretUpload(key=Secret(b"\x00"))}),
        b'{"secrets":{"a":{"key":"AA=="}}}',
        api.SecretsBody({"a": SecretUpload(key=Secret(b"\x00"))}),
    ),
    "certificate": (
        calls.writing_secrets({"a": SecretUpload(cert=b"\x01", private=Secret(b"\x02"))}),
        b'{"secrets":{"a":{"cert":"AQ==","private":"Ag=="}}}',
        api.SecretsBody({"a": SecretUpload(cert=b"\x01", private=Secret(b"\x02"))}),
    ),
    "empty fields": (
        calls.writing_secrets({"a": SecretUpload(key=Secret(b"\x00"), cert=b"", public=b"")}),
        b'{"secrets":{"a":{"key":"AA=="}}}',
        api.SecretsBody({"a": SecretUpload(key=Secret(b"\x00"))}),
    ),
    "share": (
        calls.submitting_share(b"\x00", b"\x01"),
        b'{"recoverySecret":"AA==","recoverySecretSignature":"AQ=="}',
        api.RecoverBody(Secret(b"\x00"), b"\x01"),
    ),
    "quote": (calls.signing(b"\x00"), b'{"sgxQuote":"AA=="}', api.SignQuoteBody(b"\x00")),
    "counter": (
        calls.counting("n", 2**64 - 1),
        b'{"name":"n","value":18446744073709551615}',
        api.CounterBody("n", 2**64 - 1),
    ),
}


@pytest.mark.parametrize(("call", "text", "body"), SENT.values(), ids=SENT)
def test_request_has_these_bytes_and_is_read_as_what_was_meant(
    call: calls.ApiCall[Any], text: bytes, body: msgspec.Struct
) -> None:
    assert call.request.body == Secret(text)
    assert decode(text, type(body)) == body


def test_version_1_takes_the_secrets_without_a_field_around_them() -> None:
    old = calls.writing_secrets({"a": SecretUpload(key=Secret(b"\x00"))}).old

    assert old is not None
    assert old.request.body == Secret(b'{"a":{"key":"AA=="}}')
