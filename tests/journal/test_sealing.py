"""The formats of the small files, and of a record's header."""

import hashlib
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from support.samples.state import DEK, OTHER_DEK, STORE_ID, sealing_key_of

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.secret import Secret
from keyhouse.journal import Position, StoreDamagedError
from keyhouse.journal.chain import HEADER_SIZE, Header, PayloadKind
from keyhouse.journal.directory.index_file import IndexFile
from keyhouse.journal.directory.sealing import (
    Contents,
    EpochKey,
    SealedElsewhereError,
    parse,
    seal,
    unseal,
)
from keyhouse.journal.store.protocol import StoreNewerError

SEALING_KEY = sealing_key_of("one")("ProductKey")
CONTENTS = Contents(
    (EpochKey(4, "ProductKey", DEK), EpochKey(5, "UniqueKey", OTHER_DEK)),
    Position(4, 77, hashlib.sha256().digest()),
)


def sealed(contents: Contents = CONTENTS, key: Secret = SEALING_KEY) -> bytes:
    return seal(
        contents, sealing_key=key, platform_kind="gramine", policy="ProductKey", store_id=STORE_ID
    )


def with_digest(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def test_what_was_sealed_is_unsealed() -> None:
    parts = parse(sealed())
    assert (parts.platform_kind, parts.policy, parts.store_id) == (
        "gramine",
        "ProductKey",
        STORE_ID,
    )
    assert unseal(parts, SEALING_KEY) == CONTENTS
    assert CONTENTS.key_of(5) == CONTENTS.keys[1]
    assert CONTENTS.key_of(6) is None


def test_each_sealing_has_a_nonce_of_its_own() -> None:
    assert len({parse(sealed()).nonce for _ in range(20)}) == 20


def test_data_keys_show_nowhere() -> None:
    raw = sealed()
    for dek in (DEK, OTHER_DEK):
        assert dek.reveal() not in raw
        assert dek.reveal().hex() not in repr(CONTENTS)
    assert repr(DEK.reveal()) not in repr(CONTENTS)


@pytest.mark.parametrize("machine", ["two", "one, other code"])
def test_another_sealing_key_does_not_open_it(machine: str) -> None:
    with pytest.raises(SealedElsewhereError):
        unseal(parse(sealed()), sealing_key_of(machine)("ProductKey"))
    with pytest.raises(SealedElsewhereError):
        unseal(parse(sealed()), sealing_key_of("one")("UniqueKey"))


@pytest.mark.parametrize(
    ("what", "change", "error"),
    [
        ("magic", lambda body: b"X" + body[1:], StoreDamagedError),
        ("newer", lambda body: body[:8] + b"\x03" + body[9:], StoreNewerError),
        ("another format", lambda body: body[:8] + b"\x02" + body[9:], SealedElsewhereError),
        ("version 0", lambda body: body[:8] + b"\x00" + body[9:], StoreDamagedError),
        ("kind", lambda body: body.replace(b"gramine", b"gramin3"), SealedElsewhereError),
        ("kind is text", lambda body: body.replace(b"gramine", b"gr\xffm ne"), StoreDamagedError),
        ("kind is empty", lambda body: body[:9] + b"\x00" + body[17:], StoreDamagedError),
        ("kind is long", lambda body: body[:9] + b"\xff" + body[10:], StoreDamagedError),
        ("policy", lambda body: body.replace(b"ProductKey", b"ProductKez"), StoreDamagedError),
        (
            "policy of another",
            lambda body: body.replace(b"\x0aProductKey", b"\x09UniqueKey"),
            SealedElsewhereError,
        ),
        ("store id", lambda body: body.replace(STORE_ID, bytes(16)), SealedElsewhereError),
        ("nonce", lambda body: body[:44] + bytes(12) + body[56:], SealedElsewhereError),
        ("ciphertext", lambda body: body[:-1] + bytes([body[-1] ^ 1]), SealedElsewhereError),
        ("shorter", lambda body: body[:-1], SealedElsewhereError),
        ("no ciphertext", lambda body: body[:56], SealedElsewhereError),
        ("no nonce", lambda body: body[:50], StoreDamagedError),
        ("longer", lambda body: body + b"\0", SealedElsewhereError),
    ],
)
def test_each_field_is_bound_even_with_a_digest_that_fits(
    what: str, change: Callable[[bytes], bytes], error: type[KeyhouseError]
) -> None:
    genuine = sealed()[:-32]
    changed = change(genuine)
    assert changed != genuine, what
    with pytest.raises(error):
        unseal(parse(with_digest(changed)), SEALING_KEY)


@pytest.mark.parametrize(
    "contents",
    [
        msgspec.structs.replace(CONTENTS, keys=()),
        msgspec.structs.replace(CONTENTS, keys=CONTENTS.keys * 2),
        msgspec.structs.replace(CONTENTS, keys=(EpochKey(1, "ProductKey", Secret(b"short")),)),
        msgspec.structs.replace(CONTENTS, keys=(EpochKey(1, "NoPolicy", DEK),)),
        msgspec.structs.replace(CONTENTS, head=Position(1, 1, b"short")),
    ],
    ids=["no key", "four keys", "short key", "policy", "head"],
)
def test_unsound_contents_are_refused_although_they_unseal(contents: Contents) -> None:
    with pytest.raises(StoreDamagedError):
        unseal(parse(sealed(contents)), SEALING_KEY)


@settings(max_examples=200)
@given(st.binary(max_size=120), st.booleans())
def test_arbitrary_bytes_raise_only_our_errors(rest: bytes, fits: bool) -> None:  # noqa: FBT001 - drawn
    for magic, read in (
        (b"KEYHSEAL\x01", parse),
        (b"KEYHINDX\x01", lambda raw: IndexFile.decode(raw, name="recovery_index")),
        (b"", Header.decode),
    ):
        body = magic + rest
        try:
            read(with_digest(body) if fits else body)
        except KeyhouseError:
            continue


@settings(max_examples=100)
@given(
    st.sampled_from(PayloadKind),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)
def test_a_header_comes_back(kind: PayloadKind, store_id: bytes, epoch: int, sequence: int) -> None:
    header = Header(kind, store_id, epoch, sequence)
    raw = header.encode()
    assert len(raw) == HEADER_SIZE == 34
    assert Header.decode(raw) == header


def test_the_bytes_of_a_header_are_these() -> None:
    raw = Header(PayloadKind.EVENT, STORE_ID, 2, 258).encode()
    assert raw.hex() == ("0103" + STORE_ID.hex() + "0000000000000002" + "0000000000000102")


@settings(max_examples=50)
@given(st.binary(max_size=100), st.integers(0, 2**64 - 1))
def test_an_index_comes_back(content: bytes, epoch: int) -> None:
    index = IndexFile(STORE_ID, epoch, content)
    assert IndexFile.decode(index.encode(), name="recovery_index") == index
