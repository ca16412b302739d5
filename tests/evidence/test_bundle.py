"""A compressed evidence file is expanded within bounds."""

import gzip
import struct
import zlib
from random import Random
from tracemalloc import get_traced_memory, start, stop

import pytest
from msgspec.structs import replace
from support.evidence import GOLDEN

from keyhouse.evidence.bundle import MOST_BYTES, read_evidence, write_evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step
from keyhouse.transparency.leaf import object_name

GOOD = (GOLDEN / "deployment.evidence.json").read_bytes()
MIB = 1024 * 1024


def bomb(beginning: bytes, size: int) -> bytes:
    """Return one gzip member that expands to ``size`` bytes after ``beginning``."""
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    head = packing.compress(beginning) + packing.flush(zlib.Z_FULL_FLUSH)
    block = packing.compress(bytes(MIB)) + packing.flush(zlib.Z_FULL_FLUSH)  # repeats as it is
    check = zlib.crc32(beginning)
    for _ in range(size // MIB):
        check = zlib.crc32(bytes(MIB), check)
    ends = struct.pack("<II", check, (len(beginning) + size) % 2**32)
    start_of_member = gzip.compress(b"")[:10]
    return start_of_member + head + block * (size // MIB) + packing.flush() + ends


@pytest.mark.parametrize(
    ("beginning", "size"),
    [
        (b"", MOST_BYTES + MIB),
        (b'{"checkpoints":["', MOST_BYTES + MIB),
        (b"", MOST_BYTES // 2),
    ],
)
def test_a_gzip_bomb_is_refused_in_the_memory_of_a_few_pieces(beginning: bytes, size: int) -> None:
    packed = bomb(beginning, size)

    start()
    try:
        with pytest.raises(EvidenceRefusedError) as refused:
            read_evidence(packed)
        _, most = get_traced_memory()
    finally:
        stop()

    assert refused.value.step is Step.FILE
    assert most < 16 * MIB


def test_a_file_of_several_pieces_reads_as_the_same_file() -> None:
    content = Random(1).randbytes(3 * MIB)  # noqa: S311 an object of a test
    evidence = read_evidence(GOOD)
    larger = replace(evidence, objects={**evidence.objects, object_name(content): content})

    assert read_evidence(gzip.compress(write_evidence(larger))) == larger


def test_the_largest_file_has_512_mib() -> None:
    assert MOST_BYTES == 2**29
    with pytest.raises(EvidenceRefusedError, match=str(MOST_BYTES)):
        read_evidence(bytes(MOST_BYTES + 1))  # zeros that nothing reads need no memory
    with pytest.raises(EvidenceRefusedError, match="not an evidence file"):
        read_evidence(bytes(MOST_BYTES))


@pytest.mark.parametrize(("made", "fits"), [(2**53 - 1, True), (2**53, False)])
def test_the_latest_time_is_a_whole_number_of_json(made: int, *, fits: bool) -> None:
    raw = write_evidence(replace(read_evidence(GOOD), made=made))

    if fits:
        assert read_evidence(raw).made == made
        return
    with pytest.raises(EvidenceRefusedError, match="not an evidence file"):
        read_evidence(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"null\n",
        b"",
        GOOD[:-1],
        GOOD + b"\n",
        GOOD.replace(b'"disclosures":[]', b'"disclosures":' + b"[" * 100_000 + b"]" * 100_000),
        GOOD.replace(b'"origin":"', b'"origin":"\xff'),
        GOOD.replace(b'"origin":"', b'"origin":"\xed\xa0\x80'),
    ],
)
def test_what_is_not_an_evidence_file_is_refused(raw: bytes) -> None:
    with pytest.raises(EvidenceRefusedError, match="not an evidence file") as refused:
        read_evidence(raw)

    assert refused.value.step is Step.FILE


def test_an_object_has_the_hash_that_names_it() -> None:
    evidence = read_evidence(GOOD)
    name = next(iter(evidence.objects))
    other = replace(evidence, objects={**evidence.objects, name: b"another"})

    with pytest.raises(EvidenceRefusedError, match=name):
        read_evidence(write_evidence(other))


def test_a_compressed_file_reads_as_the_same_file() -> None:
    assert read_evidence(gzip.compress(GOOD)) == read_evidence(GOOD)
    assert read_evidence(gzip.compress(GOOD, compresslevel=0)) == read_evidence(GOOD)


def test_what_follows_a_member_is_refused() -> None:
    with pytest.raises(EvidenceRefusedError, match="more data follow the end"):
        read_evidence(gzip.compress(GOOD) + b"more")
    with pytest.raises(EvidenceRefusedError, match="is damaged"):
        read_evidence(gzip.compress(GOOD)[:20] + b"\xff" * 50)
    with pytest.raises(EvidenceRefusedError, match="not an evidence file"):
        read_evidence(gzip.compress(b""))


@pytest.mark.parametrize("end", [gzip.compress(GOOD)[:-1], gzip.compress(GOOD)[:-9]])
def test_a_member_without_its_end_is_refused(end: bytes) -> None:
    with pytest.raises(EvidenceRefusedError, match="gzip-compressed file is missing"):
        read_evidence(end)
