"""Files with one case: the finding of a campaign, or a case that the tests replay.

A file has one JSON object: ``target``, ``what`` (text about the case), and ``case`` in base64.
"""

import hashlib
from pathlib import Path
from typing import Final

import msgspec
from fuzz.campaign import Found

__all__ = ["CORPUS", "read_finding", "write_finding"]

CORPUS: Final = Path(__file__).parent / "corpus"
"""Former defects, and some cases of each outcome."""

_decoder: Final = msgspec.json.Decoder(Found)


def read_finding(path: Path) -> Found:
    """Return the case in ``path``. Raises ``OSError`` or ``msgspec.MsgspecError``."""
    return _decoder.decode(path.read_bytes())


def write_finding(folder: Path, found: Found) -> Path:
    """Write ``found`` into ``folder``; return the file. Creates a missing folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{found.target}-{hashlib.sha256(found.case).hexdigest()[:12]}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    return path
