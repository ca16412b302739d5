"""What files of a log do not have is missing, and nothing else."""

from pathlib import Path

import pytest

from keyhouse.base.errors import UnavailableError
from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.log_files import LogFiles
from keyhouse.transparency.tiles import ENTRIES, Tile, bundle


@pytest.mark.parametrize("level", [ENTRIES, 0])
def test_a_tile_that_was_cut_is_missing(tmp_path: Path, level: int) -> None:
    files, tile = LogFiles(tmp_path, "a", Disk()), Tile(level, 0, 2)
    raw = bundle([b"one", b"two"]) if level == ENTRIES else bytes(64)
    with pytest.raises(UnavailableError, match="is missing"):
        files.tile(tile)
    files.grow(tile, raw, 0, durable=False)
    assert files.tile(tile) == raw
    files.grow(tile, raw[:-1], 0, durable=False)
    with pytest.raises(UnavailableError, match="is missing"):
        files.tile(tile)
