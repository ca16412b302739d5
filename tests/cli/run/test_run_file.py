"""The files that a launcher's own flags name."""

from pathlib import Path

import pytest

from keyhouse.cli.run.trust import read_small_file
from keyhouse.launcher import LaunchRefusedError


def test_whole_file_is_read_or_none_of_it(tmp_path: Path) -> None:
    file = tmp_path / "root.pem"
    file.write_bytes(b"x" * 65_536)
    assert read_small_file(file) == b"x" * 65_536

    file.write_bytes(b"x" * 65_537)
    with pytest.raises(LaunchRefusedError, match="larger than 65536 bytes"):
        read_small_file(file)


@pytest.mark.parametrize(("name", "reason"), [("none", "no such file"), (".", "is a directory")])
def test_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(LaunchRefusedError, match=reason) as refused:
        read_small_file(tmp_path / name)
    assert str(tmp_path / name) in refused.value.message
