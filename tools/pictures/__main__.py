"""Draw every picture into ``docs/pictures``: the program of ``scripts/pictures``."""

import argparse
from pathlib import Path

from pictures.benchmark import keep_figures
from pictures.console import take_pictures
from pictures.kills import record_kills
from pictures.record import record
from pictures.table import FOLDER, pictures


def main() -> None:
    """Make the recordings of the options, and then write each picture to a file."""
    parser = argparse.ArgumentParser(
        prog="scripts/pictures", description="Draw all pictures into docs/pictures."
    )
    parser.add_argument("--record", action="store_true", help="first record the terminal session")
    parser.add_argument("--kills", action="store_true", help="first record a run of kills")
    parser.add_argument("--console", action="store_true", help="make screenshots of the console")
    parser.add_argument(
        "--bench", type=Path, metavar="FILE", help="use the figures of scripts/bench --json FILE"
    )
    options = parser.parse_args()
    if options.record:
        record()
    if options.kills:
        record_kills()
    if options.console:
        take_pictures()
    if options.bench:
        keep_figures(options.bench)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
