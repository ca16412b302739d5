"""How values of secrets are printed: once, as text where they are text."""

import pytest
from support.samples.manifests import sample

from keyhouse.base.errors import RefusedError
from keyhouse.base.secret import Secret
from keyhouse.cli.secret import raw_value, shown_values
from keyhouse.client import SecretObject
from keyhouse.manifest import decode
from keyhouse.views.secrets import described_secrets


def _plain(value: bytes | None) -> SecretObject:
    content = None if value is None else Secret(value)
    return SecretObject(type="plain", private=content, public=content)


@pytest.mark.parametrize("value", [b"word", b"two\nlines\n", b"\x00\xff", b""])
def test_raw_is_exactly_the_bytes(value: bytes) -> None:
    assert raw_value("a", _plain(value), to_terminal=False) == value


@pytest.mark.parametrize("value", [b"\x1b[2J", b"\xff", b"a\x00"])
def test_a_terminal_is_not_given_what_it_cannot_show(value: bytes) -> None:
    assert raw_value("a", _plain(b"word\n"), to_terminal=True) == b"word\n"
    with pytest.raises(RefusedError, match=r'"a" .*binary'):
        raw_value("a", _plain(value), to_terminal=True)


def test_what_is_not_uploaded_has_no_bytes() -> None:
    with pytest.raises(RefusedError, match=r'"a" .*no value'):
        raw_value("a", _plain(None), to_terminal=False)


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (b"pass word", {"value": "pass word"}),
        (b"a\nb", {"base64": "YQpi"}),
        (b"\xff", {"base64": "/w=="}),
        (None, {"value": "not uploaded yet"}),
    ],
)
def test_a_value_is_shown_once(value: bytes | None, row: dict[str, str]) -> None:
    assert shown_values({"type": "plain", "private": value, "public": value}) == {
        "type": "plain",
        **row,
    }


def test_a_certificate_has_its_parts() -> None:
    rows = shown_values({"cert": b"c", "private": b"k", "public": b"p"})
    assert rows == {"cert": "Yw==", "private": "aw==", "public": "cA=="}


def test_a_list_says_where_values_come_from_and_who_may() -> None:
    found = {each.name: each for each in described_secrets(decode(sample("full")))}

    assert {name: each.value for name, each in found.items()} == {
        "apiCert": "generated",
        "apiToken": "uploaded",
        "clusterKey": "generated",
        "diskKey": "derived",
        "edCert": "generated",
        "partnerCert": "uploaded",
        "partnerKey": "uploaded",
        "rsaCert": "issued",
    }
    assert found["apiToken"].writers == ("bob",)
    assert found["apiToken"].readers == ("bob",)
    assert found["apiCert"].readers == ("carol",)
