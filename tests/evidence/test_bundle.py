"""A compressed evidence file is expanded within bounds."""

import gzip
import struct
import zlib
from tracemalloc import get_traced_memory, start, stop

import pytest
from support.evidence import GOLDEN

from keyhouse.evidence.bundle import MOST_BYTES, read_evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step

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


def test_a_compressed_file_reads_as_the_same_file() -> None:
    assert read_evidence(gzip.compress(GOOD)) == read_evidence(GOOD)
    assert read_evidence(gzip.compress(GOOD, compresslevel=0)) == read_evidence(GOOD)


@pytest.mark.parametrize("end", [gzip.compress(GOOD)[:-1], gzip.compress(GOOD)[:-9]])
def test_a_member_without_its_end_is_refused(end: bytes) -> None:
    with pytest.raises(EvidenceRefusedError, match="its end is missing"):
        read_evidence(end)
