"""Files that hold one case: what a campaign found, or once found and is now replayed by the tests.

One JSON object: ``target``, ``what`` (what was, or is, wrong with it), ``case`` in base64.
"""

import hashlib
from pathlib import Path
from typing import Final

import msgspec
from fuzz.campaign import Found

__all__ = ["CORPUS", "read_finding", "write_finding"]

CORPUS: Final = Path(__file__).parent / "corpus"
"""Cases that were defects once, and others that are worth keeping."""

_decoder: Final = msgspec.json.Decoder(Found)


def read_finding(path: Path) -> Found:
    """Return the case in ``path``. Raises ``OSError`` or ``msgspec.MsgspecError``."""
    return _decoder.decode(path.read_bytes())


def write_finding(folder: Path, found: Found) -> Path:
    """Write ``found`` into ``folder``, which is made if missing; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{found.target}-{hashlib.sha256(found.case).hexdigest()[:12]}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    return path
