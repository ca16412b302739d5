"""A shop of two services for ``keyhouse dev --example`` and for the folder ``examples``.

The programs in ``shop`` do not depend on Keyhouse, and are not modules of this package. Launchers
start these programs. The files ``*.enclave.json`` have the measurements on the simulated machine.
"""

from pathlib import Path
from typing import Final

__all__ = ["FOLDER"]

FOLDER: Final = Path(__file__).parent
