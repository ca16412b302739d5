"""Tessera's fsck, of others: it checks a log's tiles, all of them, against its checkpoint."""

import subprocess
from pathlib import Path

from support.process.tool import built_by_proxy

__all__ = ["fsck"]


def fsck(mirror: Path) -> str:
    """Return what fsck finds wrong in the log in ``mirror``, whose key is in it; "": nothing."""
    built = built_by_proxy(Path(__file__).parent, ["github.com/transparency-dev/tessera/cmd/fsck"])
    words = {"--storage_url": f"file://{mirror}/", "--public_key": f"{mirror / 'key'}"}
    ended = subprocess.run(
        [built / "fsck", "--ui=false", "-N=4", *(word for each in words.items() for word in each)],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return "" if "Successfully" in ended.stderr else ended.stderr  # its exit code says nothing
