import hashlib
import json
from collections.abc import Iterable

import msgspec
import pytest

from keyhouse.transparency import line as lines
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.line import (
    ENTRY_BYTES,
    Code,
    Entry,
    RootLine,
    encode_entry,
    hash_of,
    read_entry,
    read_line,
)

ROOT = b"the root certificate"
R = hashlib.sha256(ROOT).hexdigest()
T = 1_790_000_000_000_000
CODE = Code(tee="sgx", unique="ab" * 32, signer="cd" * 32, product=1, svn=2, vm="", version="0.2.0")
F, G = "01" * 32, "02" * 32
EXAMPLES: tuple[Entry, ...] = (
    lines.Created(previous="", time=T, root=R, manifest=F, code=CODE),
    lines.Adopted(previous="", time=T, root=R, manifest=F, code=CODE),
    lines.ManifestEntry(previous=F, time=T, manifest=G, code=CODE),
    lines.CodeEntry(previous=F, time=T, code=CODE),
    lines.RecoveredEntry(previous=F, time=T, holders=("anna", "bert")),
    lines.NewLogEntry(previous=F, time=T, origin="keyhouse/1"),
)


def chained(entries: Iterable[Entry]) -> tuple[bytes, ...]:
    raw: list[bytes] = []
    for entry in entries:
        before = hash_of(raw[-1]).hex() if raw else ""
        raw.append(encode_entry(msgspec.structs.replace(entry, previous=before)))
    return tuple(raw)


WHOLE = chained((EXAMPLES[0], *EXAMPLES[2:]))


@pytest.mark.parametrize("entry", EXAMPLES, ids=lambda entry: type(entry).__name__)
def test_each_kind_of_entry_has_one_text(entry: Entry) -> None:
    raw = encode_entry(entry)
    assert read_entry(raw) == entry
    fields = json.loads(raw)
    assert raw == json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    for other in (raw + b"\n", raw[:-1], raw.replace(b":", b": ", 1), b"", b"\xff"):
        with pytest.raises(LogInvalidError):
            read_entry(other)
    for more in ({"more": 1}, {"v": 2}, {"kind": "other"}, {"time": -1}):
        with pytest.raises(LogInvalidError):
            read_entry(json.dumps(fields | more, sort_keys=True, separators=(",", ":")).encode())


def test_the_bytes_of_the_first_entry_are_these_forever() -> None:
    code = (
        f'{{"product":1,"signer":"{CODE.signer}","svn":2,"tee":"sgx","unique":"{CODE.unique}",'
        '"version":"0.2.0","vm":""}'
    )
    raw = (
        f'{{"code":{code},"kind":"created","manifest":"{F}","previous":"","root":"{R}",'
        f'"time":{T},"v":1}}'
    )
    assert WHOLE[0] == raw.encode()


def test_a_long_entry_is_refused() -> None:
    entry = lines.RecoveredEntry(previous=F, time=T, holders=("a" * 500,) * 17)
    with pytest.raises(LogInvalidError):
        encode_entry(entry)
    assert ENTRY_BYTES == 8192


def test_a_line_names_its_manifests_in_order() -> None:
    line = read_line(WHOLE, ROOT)
    assert line.manifests == (F, G)
    assert line.first == EXAMPLES[0]
    assert line.last_hash == hash_of(WHOLE[-1])


def test_a_line_that_is_not_whole_is_refused() -> None:
    created, manifest = WHOLE[0], WHOLE[1]
    other = chained((msgspec.structs.replace(EXAMPLES[0], time=T + 1), EXAMPLES[2]))
    second = lines.Created(previous=hash_of(created).hex(), time=T, root=R, manifest=F, code=CODE)
    wrong: tuple[tuple[bytes, ...], ...] = (
        (),
        WHOLE[1:],
        (created, other[1]),
        (other[0], manifest),
        (created, *WHOLE[2:]),
        (created, encode_entry(second)),
        (encode_entry(EXAMPLES[3]),),
        (created,) * 4_097,
    )
    for raw in wrong:
        with pytest.raises(LogInvalidError):
            read_line(raw, ROOT)
    with pytest.raises(LogInvalidError, match="different root"):
        read_line(WHOLE, ROOT + b"\0")


def test_a_longer_line_continues_a_remembered_one_and_no_other_does() -> None:
    line = read_line(WHOLE, ROOT)
    shorter: RootLine = read_line(WHOLE[:2], ROOT)
    assert line.continues(2, shorter.last_hash)
    assert line.continues(len(WHOLE), line.last_hash)
    assert not shorter.continues(len(WHOLE), line.last_hash)
    assert not line.continues(1, shorter.last_hash)
    assert not line.continues(0, shorter.last_hash)
