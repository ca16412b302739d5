"""The body of a cancellation: an approval, or whatever clients have always sent there."""

import pytest

from keyhouse.base.errors import BadRequestError
from keyhouse.server.client_api.v2.writes import cancellation_of


@pytest.mark.parametrize("body", [b"", b"  ", b"null", b"[]", b"junk", b"{}", b'{"other": 1}'])
def test_a_body_without_an_approval_says_nothing(body: bytes) -> None:
    assert cancellation_of(body) is None


def test_an_approval_is_base64() -> None:
    assert cancellation_of(b' {"approval": "AAE="}') == b"\0\1"
    for body in (b'{"approval": "%"}', b'{"approval": 1}', b'{"approval": "AAE="', b"{"):
        with pytest.raises(BadRequestError):
            cancellation_of(body)
