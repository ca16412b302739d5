"""Base64, exactly."""

import base64

import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.base.errors import BadRequestError
from keyhouse.wire.base64_text import decode_base64, decode_base64url


@given(st.binary(max_size=100))
@settings(max_examples=200)
def test_what_was_encoded_is_decoded(data: bytes) -> None:
    assert decode_base64(base64.b64encode(data).decode()) == data
    assert decode_base64(base64.encodebytes(data).decode().replace("\n", "\r\n")) == data
    padded = base64.urlsafe_b64encode(data).decode()
    assert decode_base64url(padded, maximum=100) == data
    assert decode_base64url(padded.rstrip("="), maximum=100) == data


@given(st.text(alphabet="AQgw+/-_= \n", max_size=12) | st.text(max_size=8))
@settings(max_examples=500)
def test_two_texts_never_mean_the_same_bytes(text: str) -> None:
    bare = text.replace("\r", "").replace("\n", "")
    try:
        decoded = decode_base64(text)
    except BadRequestError:
        pass
    else:
        assert base64.b64encode(decoded).decode() == bare
    try:
        decoded = decode_base64url(text, maximum=100)
    except BadRequestError:
        return
    encoded = base64.urlsafe_b64encode(decoded).decode()
    assert text in {encoded, encoded.rstrip("=")}


@pytest.mark.parametrize(
    "text", ["QQ=", "QR", "QQ===", "QQ==\n", "+w==", "Q", "Q Q=", "=", "é", "QQ==QQ=="]
)
def test_other_url_texts_are_refused(text: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        decode_base64url(text, maximum=16)
    assert text not in refused.value.message.split()


def test_limits_hold_before_and_after_decoding() -> None:
    assert decode_base64("QUJD", maximum=3) == b"ABC"
    assert decode_base64url("QUJD", maximum=3, size=3) == b"ABC"
    for text, maximum in (("QUJDRA==", 3), ("QUI=", 1)):
        with pytest.raises(BadRequestError):
            decode_base64(text, maximum=maximum)
    for text, maximum, size in (("QUI", 1, None), ("A" * 1_000_000, 1024, None), ("QUJD", 9, 2)):
        with pytest.raises(BadRequestError):
            decode_base64url(text, maximum=maximum, size=size)
