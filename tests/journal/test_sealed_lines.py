"""The content of a seal about the line of a root, and the code that made the seal."""

import asyncio
import hashlib
from pathlib import Path

import msgspec
import pytest
from support.samples.state import DEK, STORE_ID

from keyhouse.base.secret import Secret
from keyhouse.journal import LineMark, Position
from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.load_result import Vouched
from keyhouse.journal.directory.sealing import (
    Contents,
    EpochKey,
    KeyFile,
    SealedElsewhereError,
    parse,
    seal,
    unseal,
)

MARK = LineMark(b"r" * 32, 3, b"l" * 32, b"u" * 32)
PLACE = Position(4, 77, hashlib.sha256().digest())
PRODUCT, UNIQUE, OTHER = (Secret(letter * 32) for letter in (b"p", b"u", b"o"))


def key_file(folder: Path, unique: Secret = UNIQUE) -> KeyFile:
    """Return the key file for code of a product with its own key ``unique``."""
    keys = {"ProductKey": PRODUCT, "UniqueKey": unique}
    return KeyFile(folder, Disk(), "simulation", keys.__getitem__)


def contents(policy: str, line: LineMark | None = MARK) -> Contents:
    return Contents((EpochKey(4, policy, DEK, line),), PLACE)


def vouched(of: KeyFile, raw: bytes) -> Vouched | None:
    found = asyncio.run(of.unseal(parse(raw)))
    return asyncio.run(of.vouched(parse(raw), found, found.keys[-1]))


@pytest.mark.parametrize("policy", ["ProductKey", "UniqueKey"])
def test_code_recognises_its_own_seal_of_a_line(tmp_path: Path, policy: str) -> None:
    own = key_file(tmp_path)
    raw = asyncio.run(own.seal(contents(policy), STORE_ID))
    assert raw[8] == 2
    assert vouched(own, raw) == Vouched(MARK, PLACE, is_own=True)


def test_a_seal_of_other_code_of_the_signer_is_told_apart(tmp_path: Path) -> None:
    raw = asyncio.run(key_file(tmp_path, OTHER).seal(contents("ProductKey"), STORE_ID))
    assert vouched(key_file(tmp_path), raw) == Vouched(MARK, PLACE, is_own=False)


def test_a_seal_whose_line_was_changed_is_not_the_own_one(tmp_path: Path) -> None:
    """Other code of the signer also has the key of ``ProductKey``, and can seal anything."""
    own = key_file(tmp_path)
    true = unseal(parse(asyncio.run(own.seal(contents("ProductKey"), STORE_ID))), PRODUCT)
    for changed in (
        msgspec.structs.replace(true, head=Position(4, 76, PLACE.chain)),
        msgspec.structs.replace(
            true,
            keys=(EpochKey(4, "ProductKey", DEK, msgspec.structs.replace(MARK, entries=4)),),
        ),
        msgspec.structs.replace(true, own=b""),
    ):
        forged = seal(
            changed,
            sealing_key=PRODUCT,
            platform_kind="simulation",
            policy="ProductKey",
            store_id=STORE_ID,
        )
        found = vouched(own, forged)
        assert found is not None
        assert not found.is_own


def test_a_seal_without_a_line_has_the_format_that_older_versions_read(tmp_path: Path) -> None:
    own = key_file(tmp_path)
    raw = asyncio.run(own.seal(contents("ProductKey", None), STORE_ID))
    assert raw[8] == 1
    assert vouched(own, raw) is None
    relabelled = raw[:8] + b"\2" + raw[9:-32]
    with pytest.raises(SealedElsewhereError):
        asyncio.run(own.unseal(parse(relabelled + hashlib.sha256(relabelled).digest())))
