"""A shop of two services, for ``keyhouse dev --example`` and the examples: programs, manifest.

The programs in ``shop`` know nothing of Keyhouse and are no modules of this package: launchers
start them. ``*.enclave.json`` says what the simulated machine measures.
"""

from pathlib import Path
from typing import Final

__all__ = ["FOLDER"]

FOLDER: Final = Path(__file__).parent
