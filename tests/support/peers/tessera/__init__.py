"""Tessera's fsck, an independent check of all tiles of a log against its checkpoint."""

import subprocess
from pathlib import Path

from support.process.tool import built_by_proxy

__all__ = ["fsck"]


def fsck(mirror: Path) -> str:
    """Return the errors of the log in ``mirror``, or "". The file ``key`` has the log's key."""
    built = built_by_proxy(Path(__file__).parent, ["github.com/transparency-dev/tessera/cmd/fsck"])
    words = {"--storage_url": f"file://{mirror}/", "--public_key": f"{mirror / 'key'}"}
    ended = subprocess.run(
        [built / "fsck", "--ui=false", "-N=4", *(word for each in words.items() for word in each)],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return "" if "Successfully" in ended.stderr else ended.stderr  # the exit code is always 0
