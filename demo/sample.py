"""The manifest of the demo: every section of the format, with the keys of this run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["fill_in"]

_TEMPLATE: Final = Path(__file__).with_name("manifest.json")


def fill_in(pems: Mapping[str, bytes]) -> bytes:
    """Return ``manifest.json`` with each ``@name@`` replaced by the PEM text of that name."""
    text = _TEMPLATE.read_text(encoding="utf-8")
    for name, pem in pems.items():
        text = text.replace(f'"@{name}@"', msgspec.json.encode(pem.decode("ascii")).decode())
    return text.encode()
