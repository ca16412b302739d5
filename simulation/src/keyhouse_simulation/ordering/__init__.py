"""A shop of two services, for ``keyhouse dev --example`` and the examples: programs, manifest.

The programs in ``shop`` do not depend on Keyhouse and are not modules of this package: launchers
start them. ``*.enclave.json`` are the measurements on the simulated machine.
"""

from pathlib import Path
from typing import Final

__all__ = ["FOLDER"]

FOLDER: Final = Path(__file__).parent
