"""A mirror that was interrupted continues where its files end."""

from pathlib import Path

import pytest

from keyhouse.base.errors import RefusedError
from keyhouse.cli.log.folder import MirrorFolder
from keyhouse.client.public_log import LogCheckpoint
from keyhouse.journal.log_store import Growing
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import object_name


def test_an_interrupted_mirror_continues(tmp_path: Path) -> None:
    folder, log = MirrorFolder(tmp_path / "mirror"), Growing()
    with folder.locked():
        folder.require_key("a+key")
        log.extend(b"%d" % number for number in range(1000))
        folder.begin(log)
        there = folder.growing(None)
    assert (there.size, there.frontier) == (1000, log.frontier)
    there.extend([b"more"])
    folder.publish(there, b"a note")
    assert not (folder.path / "size").exists()
    assert (folder.path / "tile/entries/003.p/233").exists()
    assert (folder.path / "checkpoint").read_bytes() == b"a note"


def test_partial_tiles_end_with_the_whole_one(tmp_path: Path) -> None:
    folder, log = MirrorFolder(tmp_path), Growing()
    log.extend(b"%d" % number for number in range(200))
    folder.publish(log, b"a note")
    seen = LogCheckpoint("a", 200, log.frontier.root, b"a note", "a+key")
    partial = [tmp_path / f"tile/{each}/000.p" for each in ("0", "entries")]
    assert all((each / "200").exists() for each in partial)

    log.extend(b"%d" % number for number in range(200, 300))
    folder.put(log, partial=False)
    assert not any(each.exists() for each in partial)
    there = folder.growing(seen)  # as after a crash: readers still see the old checkpoint
    assert there.frontier.root == seen.root
    (tmp_path / "tile/entries/000").write_bytes(b"")
    with pytest.raises(RefusedError, match="is damaged"):
        folder.growing(seen)


def test_what_is_damaged_or_of_another_log_is_refused(tmp_path: Path) -> None:
    folder, log = MirrorFolder(tmp_path), Growing()
    folder.require_key("a+key")
    log.extend([b"one"])
    folder.begin(log)
    with pytest.raises(RefusedError, match="different log"):
        folder.require_key("other+key")
    for content in (b"2", b"x", b"-1"):
        (folder.path / "size").write_bytes(content)
        with pytest.raises(RefusedError, match="is damaged"):
            folder.growing(None)
    with pytest.raises(LogInvalidError):
        folder.put_object("00" * 32, b"another")
    folder.put_object(object_name(b"one"), b"one")
    assert folder.object(object_name(b"one")) == b"one"
