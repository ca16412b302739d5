"""Draws every picture again, into ``docs/pictures``: ``scripts/pictures`` runs it.

With ``--record`` the session of ``terminal`` is recorded before.
"""

import sys

from pictures.record import record
from pictures.table import FOLDER, pictures


def main() -> None:
    """Write each picture to its file."""
    if "--record" in sys.argv[1:]:
        record()
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
